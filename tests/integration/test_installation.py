"""The package, installed without its checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from perftrend.measure import lock

CHECKOUT = Path(__file__).resolve().parents[2]
# A job of another test may hold the simulated testbed.
ALONE = {lock.HELD: "simulated"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install a copy of the package into a folder: setuptools writes files into the sources."""
    copy, target = tmp_path_factory.mktemp("sources"), tmp_path_factory.mktemp("site")
    for name in ("setup.cfg", "pyproject.toml", "README.rst", "LICENSE"):
        shutil.copy(CHECKOUT / name, copy)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for folder in ("resources", "tests/suites"):
        shutil.copytree(CHECKOUT / folder, copy / folder, symlinks=True, ignore=ignored)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
    subprocess.run(
        [*pip, "install", "--no-index", "--no-deps", "--no-build-isolation", "--target", target, copy],
        check=True,
    )
    return target


def run(site: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PERFTREND_")}
    return subprocess.run(
        [sys.executable, site / "bin" / "perftrend", *words],
        cwd=folder,
        # This folder comes before the checkout that the environment of the tests refers to.
        env=environment | ALONE | {"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_trending_measures_reports_and_names_the_installed_program(site: Path, tmp_path: Path) -> None:
    """Modules in the current folder are not ours, whatever their names."""
    for name in ("robot", "json", "perftrend"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a module of the current folder was run')")

    measured = run(site, tmp_path, "trending", "--testbed", "simulated", "--tags", "mrrAND64bAND1c")

    assert measured.returncode == 0, measured.stderr
    assert "8 normal of 8 tests" in measured.stdout
    assert (tmp_path / "report" / "index.html").is_file()
    refused = run(site, tmp_path, "analysis", "--testbed", "none-such")
    assert refused.returncode == 2
    assert "perftrend trending --testbed" in refused.stderr
    assert "./run" not in refused.stderr


@pytest.mark.parametrize("job", ["trending", "bisectrun"])
def test_help_is_that_of_the_program(site: Path, tmp_path: Path, job: str) -> None:
    shown = run(site, tmp_path, job, "--help").stdout

    assert shown.startswith(f"usage: perftrend {job} ")
    assert "/run " not in shown


def test_bisectrun_judges_commits_of_a_program(site: Path, tmp_path: Path) -> None:
    """Three commits, of which the second makes the program's printed time four times longer."""
    repository = tmp_path / "program"
    repository.mkdir()

    def git(*words: str) -> str:
        identity = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
        return subprocess.run(
            ["git", *identity, *words], cwd=repository, capture_output=True, text=True, check=True
        ).stdout.strip()

    git("init", "--quiet")
    hashes = []
    for milliseconds in (10, 40, 40):
        # The build makes what is measured; each commit differs in its comment.
        (repository / "bench").write_text(
            f"#!/bin/sh\n# {len(hashes)}\nfor i in 1 2 3 4 5; do echo {milliseconds}.$i; done\n"
        )
        git("add", ".")
        git("commit", "--quiet", "-m", f"Take {milliseconds} ms")
        hashes.append(git("rev-parse", "HEAD"))
    settings = tmp_path / "program.yaml"
    settings.write_text(
        "project:\n  profile: command\n  parameters:\n"
        "    {build: chmod +x bench, keep: bench, measure: ./bench, unit: ms, better: lower}\n"
    )
    git("bisect", "start", hashes[2], hashes[0])

    judged = run(site, repository, "bisectrun", "--settings", str(settings))

    assert judged.returncode == 1, judged.stderr
    assert f'{hashes[1][:12]} "Take 40 ms" is like the new end' in judged.stdout
