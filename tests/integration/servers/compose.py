"""The services of ``deploy/compose.yaml`` as sandboxed processes, where containers cannot run.

A process has the command, environment, files and secrets of its service, a read-only root file system, and
no capabilities. It differs from a container in two ways: its programs are those of this machine, and all
services share the network of this machine, so that a test replaces their addresses.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

CHECKOUT = Path(__file__).resolve().parents[3]
DEPLOY = CHECKOUT / "deploy"
READY_S = 300

_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*)|:\?)?\}")
_ETC = (
    "group",
    "hosts",
    "nsswitch.conf",
    "passwd",
    "resolv.conf",
    "alternatives",
    "ld.so.cache",
    "localtime",
)


def load(variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the Compose file with its variables replaced.

    :raises KeyError: if a variable is missing that has no default.
    """
    content: dict[str, Any] = _interpolate(yaml.safe_load((DEPLOY / "compose.yaml").read_text()), variables)
    return content


def _interpolate(content: Any, variables: Mapping[str, str]) -> Any:
    match content:
        case str():
            return _VARIABLE.sub(
                lambda found: variables[found[1]] if found[2] is None else variables.get(found[1], found[2]),
                content,
            )
        case list():
            return [_interpolate(each, variables) for each in content]
        case dict():
            return {name: _interpolate(each, variables) for name, each in content.items()}
        case _:
            return content


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile and their arguments."""
    lines = [line for line in (DEPLOY / "Dockerfile").read_text().splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    words = [line.partition(" ") for line in joined.splitlines() if line.strip()]
    return [(name, " ".join(arguments.split())) for name, _, arguments in words]


def image_environment() -> dict[str, str]:
    """Return the environment of the image."""
    assignments = [word for name, words in instructions() if name == "ENV" for word in shlex.split(words)]
    return dict(word.split("=", 1) for word in assignments)


def image_command(instruction: str) -> list[str]:
    """Return the words of ``ENTRYPOINT``, ``CMD`` or ``HEALTHCHECK``."""
    [arguments] = [arguments for name, arguments in instructions() if name == instruction]
    command: list[str] = json.loads(arguments[arguments.index("[") :])
    return command


class Site:
    """A folder with copies of the files of ``deploy``, and what its users add.

    :param variables: those of ``.env``.
    :param addresses: environment variables of services that have other values here.
    """

    def __init__(self, folder: Path, variables: Mapping[str, str], addresses: Mapping[str, str]) -> None:
        self.folder = folder
        self.content = load(variables)
        self._addresses = addresses

    def environment(self, service: str) -> dict[str, str]:
        """Return the environment of a service."""
        own = image_environment() if "build" in self._service(service) else {}
        given = own | self._service(service).get("environment", {})
        return {name: self._addresses.get(name, value) for name, value in given.items()}

    def log(self, service: str) -> str:
        """Return what a service has printed."""
        return (self.folder / f"{service}.log").read_text()

    def run(self, service: str, command: Sequence[str] = (), **options: Any) -> int:
        """Run a service, or another command in its place, to its end; return its exit code."""
        with (self.folder / f"{service}.log").open("a") as log:
            return subprocess.run(
                self._sandboxed(service, command, **options),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False, timeout=READY_S,
            ).returncode  # fmt: skip

    @contextmanager
    def running(self, service: str, port: int, **options: Any) -> Iterator[None]:
        """Run a service until the context ends, and wait until its health check succeeds.

        :param port: where it listens.
        """
        with (self.folder / f"{service}.log").open("a") as log:
            process = subprocess.Popen(
                self._sandboxed(service, **options), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            end = time.monotonic() + READY_S
            while self.run(service, self._health_check(service, port)):
                if process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"{service} does not become healthy:\n{self.log(service)}")
                time.sleep(0.1)
            yield
        finally:
            process.kill()
            process.wait(READY_S)

    def _health_check(self, service: str, port: int) -> list[str]:
        own = self._service(service).get("healthcheck")
        words = own["test"][1:] if own else image_command("HEALTHCHECK")
        return [word.replace("8080", str(port)).replace(":443", f":{port}") for word in words]

    def _service(self, name: str) -> dict[str, Any]:
        service: dict[str, Any] = self.content["services"][name]
        return service

    def _sandboxed(
        self, service: str, command: Sequence[str] = (), *, user: int = 10001, image: Sequence[str] = ()
    ) -> list[str]:
        """Return the command of a service in its sandbox.

        :param image: more files of its image, as arguments of bubblewrap.
        """
        options = self._service(service)
        words = [
            "bwrap", "--die-with-parent", "--unshare-user", "--unshare-pid", "--unshare-ipc",
            "--cap-drop", "ALL", "--uid", str(user), "--gid", str(user), "--clearenv",
            "--proc", "/proc", "--dev", "/dev",
        ]  # fmt: skip
        for mount in options.get("tmpfs", []):
            words += ["--tmpfs", mount.partition(":")[0]]
        words += [*_programs(), *image]
        for volume in options.get("volumes", []):
            source, target, *_ = volume.split(":")
            if source.startswith("."):
                words += ["--ro-bind", str(self.folder / source), target]
            else:
                (self.folder / "volumes" / source).mkdir(parents=True, exist_ok=True)
                words += ["--bind", str(self.folder / "volumes" / source), target]
        for secret in options.get("secrets", []):
            named = secret if isinstance(secret, dict) else {"source": secret}
            source = self.folder / self.content["secrets"][named["source"]]["file"]
            words += ["--ro-bind", str(source), named.get("target", f"/run/secrets/{named['source']}")]
        if options["read_only"]:
            words += ["--remount-ro", "/"]
        for name, value in self.environment(service).items():
            words += ["--setenv", name, value]
        if "build" in options:
            # The sources of this checkout take the place of the installed package.
            words += ["--setenv", "PYTHONPATH", f"{CHECKOUT}:{CHECKOUT / 'resources'}"]
            words += ["--chdir", "/var/lib/perftrend"]
            command = command or [*image_command("ENTRYPOINT"), *options["command"]]
        return [*words, "--", *command]


def _programs() -> list[str]:
    """Return mounts of the programs of this machine, and the tests' environment in place of the image's."""
    words = []
    for name in ("bin", "lib", "lib64", "sbin"):
        root = Path("/", name)
        merged = ["--symlink", f"usr/{name}", str(root)]
        words += merged if root.is_symlink() else ["--ro-bind-try", str(root), str(root)]
    for place in dict.fromkeys(("/usr", sys.base_prefix, sys.prefix, str(CHECKOUT))):
        words += ["--ro-bind", place, place]
    words += ["--ro-bind", sys.prefix, "/opt/perftrend"]
    # The search for changes is compiled already.
    words += ["--bind-try", f"{sys.prefix}/cache", f"{sys.prefix}/cache"]
    for name in _ETC:
        words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return words
