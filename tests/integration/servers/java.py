"""What the servers of the tests have in common: they are Java programs, and Maven Central has their files.

The files come once into a cache folder. A server ends with the tests, even if these are killed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


class LackingError(Exception):
    """What this machine has not got, for a person to read."""


def program(name: str) -> str:
    found = shutil.which(name)
    if not found:
        raise LackingError(f"needs {name}")
    return found


def command() -> list[str]:
    """Return how Java is started."""
    # Tests that are killed have no time to end it.
    dying = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
    # To make the fastest code takes longer than these servers live: it doubled what their starts cost.
    return [*dying, program("java"), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def fetched(name: str, pom: Path, *options: str, finish: Callable[[Path], None]) -> Path:
    """Return the folder with the dependencies of a POM, fetched from Maven Central the first time.

    :param options: for Maven, beside its own.
    :param finish: makes of the files what the server starts from; raises LackingError if one is missing.
    :raises LackingError: if Maven is missing, or the files cannot be had.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "perftrend-tests"
    folder = cache / f"{name}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=cache) as scratch:
                files = Path(scratch) / "files"
                fetch(pom, files, options)
                finish(files)
                # Last and at once: a folder of that name is a whole one.
                files.rename(folder)
    return folder


def fetch(pom: Path, folder: Path, options: tuple[str, ...]) -> None:
    folder.mkdir()
    # Beside a copy of the file, because Maven writes next to it.
    shutil.copy(pom, folder / "pom.xml")
    got = subprocess.run(
        [program("mvn"), "-q", "--batch-mode", PLUGIN, "-DoutputDirectory=.", *options],
        cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", timeout=900, check=False,
    )  # fmt: skip
    if got.returncode:
        raise LackingError(f"needs a network with Maven Central: {' '.join(got.stdout.split())[-500:]}")
