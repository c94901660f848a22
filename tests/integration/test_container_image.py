"""The image of ``deploy/Dockerfile``, built and run by Docker or Podman."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from perftrend import __version__
from tests.integration.servers.compose import CHECKOUT, READY_S, image_command

IMAGE = "perftrend-tests"
CONFINED = ("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--tmpfs", "/tmp")  # noqa: S108
BUILD_S = 1800


def find_engine() -> str:
    """Return the name of a program that can run containers here; empty if there is none."""
    for name in ("docker", "podman"):
        if (
            shutil.which(name)
            and not subprocess.run([name, "info"], capture_output=True, check=False).returncode
        ):
            return name
    return ""


@pytest.mark.measure
def test_image_is_built_and_its_dashboard_is_healthy(
    require: Callable[[object, str], None], record_property: Callable[[str, object], None]
) -> None:
    engine = find_engine()
    require(engine, "needs Docker or Podman")
    build = [engine, "build", "--file", "deploy/Dockerfile", "--tag", IMAGE, "."]
    begun = time.monotonic()
    subprocess.run(build, cwd=CHECKOUT, check=True, timeout=BUILD_S)
    built_s = time.monotonic() - begun
    run = [engine, "run", "--rm", *CONFINED]

    assert f"perftrend {__version__}" == output([*run, IMAGE, "--version"])
    assert "10001" == output([*run, "--entrypoint", "id", IMAGE, "-u"])
    absent = "command -v pip || command -v gcc || command -v make || echo none"
    assert "none" == output([*run, "--entrypoint", "sh", IMAGE, "-c", absent])
    with served(engine) as container:
        check = [engine, "exec", container, *image_command("HEALTHCHECK")]
        deadline = time.monotonic() + READY_S
        while subprocess.run(check, check=False).returncode:
            assert time.monotonic() < deadline, output([engine, "logs", container])
            time.sleep(0.2)
    size = int(output([engine, "image", "inspect", "--format", "{{.Size}}", IMAGE]))
    record_property("measured", f"{size / 1e6:.0f} MB, built in {built_s:.0f} s")


@contextmanager
def served(engine: str) -> Iterator[str]:
    """Run a dashboard with a store in a volume; give its container."""
    options = [*CONFINED, "--volume", "/var/lib/perftrend", "--env", "PERFTREND_DASHBOARD_PUBLIC=true"]
    container = output([engine, "run", "--detach", *options, IMAGE, "dashboard"])
    try:
        yield container
    finally:
        subprocess.run(
            [engine, "rm", "--force", "--volumes", container], check=True, stdout=subprocess.DEVNULL
        )


def output(command: list[str]) -> str:
    return subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, timeout=READY_S
    ).stdout.strip()
