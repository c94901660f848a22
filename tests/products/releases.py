"""Small projects of other people as products: each release of their sources is a commit.

``tests/data/releases/NAME.txt`` lists the releases, oldest first, as pip's requirements with the SHA-256 of
their archives. pip fetches them from whatever index it is configured to use, once, into a cache folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.products.histories import History

PINNED = Path(__file__).parents[1] / "data" / "releases"
DOWNLOAD = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
# pip asks a source release for its metadata; setuptools is there, and need not be fetched for each of them.
SOURCE = ["--no-deps", "--no-binary=:all:", "--no-build-isolation"]


class LackingError(Exception):
    """Why the releases cannot be had here, for a person to read."""


@dataclass(frozen=True)
class Release:
    """A release of a project."""

    project: str
    version: str
    sha256: str

    @classmethod
    def pinned(cls, line: str) -> Release:
        """Read ``project==version --hash=sha256:…``."""
        requirement, hashed = line.split()
        project, version = requirement.split("==")
        return cls(project, version, hashed.removeprefix("--hash=sha256:"))

    def archive(self, folder: Path) -> Path:
        """Return the archive, fetched if the folder has it not.

        :raises LackingError: if pip cannot fetch it.
        """
        path = folder / f"{self.project}-{self.version}.tar.gz"
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                self._fetch(Path(scratch)).rename(path)
        assert self.sha256 == hashlib.sha256(path.read_bytes()).hexdigest(), path
        return path

    def _fetch(self, folder: Path) -> Path:
        wanted = [f"--dest={folder}", f"{self.project}=={self.version}"]
        # What the checks pin for themselves may be another release of the same project.
        free = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
        got = subprocess.run(
            [*DOWNLOAD, *SOURCE, *wanted], env=free, capture_output=True, text=True, check=False
        )
        if got.returncode:
            last = got.stderr.strip().splitlines()[-1:]
            raise LackingError(f"needs a package index with {wanted[-1]}: {''.join(last)[:300]}")
        [archive] = folder.iterdir()
        return archive


def pinned(project: str, first: str, last: str) -> list[Release]:
    """Return the releases of a project from one version to another, oldest first."""
    lines = (PINNED / f"{project}.txt").read_text().splitlines()
    releases = [Release.pinned(line) for line in lines]
    versions = [each.version for each in releases]
    return releases[versions.index(first) : versions.index(last) + 1]


def fetched(releases: Iterable[Release]) -> list[Path]:
    """Return the archives of releases.

    :raises LackingError: if pip cannot fetch one.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "perftrend-tests" / "releases"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock, ThreadPoolExecutor(4) as several:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return list(several.map(lambda each: each.archive(cache), releases))


class ReleasedProduct:
    """A repository with the releases of a project, whose archives are there."""

    def __init__(self, folder: Path, releases: Iterable[Release], archives: Iterable[Path]) -> None:
        self.folder = folder
        self.history = History(folder)
        self.commits: dict[str, str] = {}
        """Hashes by version."""
        for release, archive in zip(releases, archives, strict=True):
            for old in folder.iterdir():
                if old.name != ".git":
                    shutil.rmtree(old) if old.is_dir() else old.unlink()
            unpack(archive, folder)
            self.history.git("add", "--all", "--force")
            self.commits[release.version] = self.history.commit(f"Release {release.version}", {})


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive without the folder that it has everything in."""
    with tarfile.open(archive) as packed:
        # Python before 3.11.4 has no filters.
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(folder, members=inner(packed))  # noqa: S202 - an archive that is known by its hash


def inner(packed: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    for member in packed:
        _, _, member.name = member.name.partition("/")
        if member.name:
            yield member
