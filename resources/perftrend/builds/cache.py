"""What was built, kept by commit and by the way of building; a bounded number of it.

::

    kept/KEY/manifest.json      sizes and SHA-256 of the files, commit, way of building
    kept/KEY/files/…            the artifacts
    kept/KEY.lock               shared by who uses them; alone with who builds or removes them;
                                its time of modification is when they were last used
    staging/KEY/…               not yet complete

An entry appears whole, by renaming, and is looked at from its manifest to its last byte before it is
used: what a kill, a full disk or a person made of it is never taken for a build.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from perftrend.clients.git.locking import taken

_MANIFEST = "manifest.json"
_FILES = "files"


@dataclass(frozen=True, slots=True)
class Built:
    """A commit that is built: its artifacts, ready to be installed and measured."""

    commit: str
    """40 hex digits."""
    folder: Path
    """Where the artifacts lie, at the paths that they had in the checkout; absolute."""
    device_options: Mapping[str, str]
    """Options for the driver of the testbed's device."""
    took_s: float
    """How long it took to build, now or when that was."""
    was_kept: bool
    """Whether it was there already."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of an entry."""

    size: int
    """In bytes."""
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an entry has to be."""

    commit: str
    profile: str
    """The hash of the way of building."""
    took_s: float
    files: Mapping[str, File]
    """By their paths, relative to the folder of the artifacts."""


_TYPE = TypeAdapter(Manifest)


class Cache:
    """A folder of builds; several processes and threads may use it."""

    def __init__(self, folder: Path, maximum: int) -> None:
        self._folder = folder
        self.maximum = maximum

    def lock(self, key: str) -> Path:
        """Return the file whose lock says who builds or uses an entry."""
        return self._folder / "kept" / f"{key}.lock"

    def files(self, key: str) -> Path:
        """Return where the artifacts of an entry lie, or would lie."""
        return self._entry(key) / _FILES

    def trusted(self, key: str) -> Manifest | None:
        """Return what an entry is; None if it is not there, or not as it was made.

        To be called by who holds its lock.
        """
        entry = self._entry(key)
        try:
            manifest = _TYPE.validate_json((entry / _MANIFEST).read_bytes())
            is_whole = f"{manifest.commit}-{manifest.profile}" == key and manifest.files == _listed(
                entry / _FILES
            )
        except (FileNotFoundError, NotADirectoryError, ValidationError):
            return None
        return manifest if is_whole else None

    def used(self, key: str) -> None:
        """Note that an entry is used now."""
        os.utime(self.lock(key))

    def keep(self, key: str, source: Path, paths: Iterable[Path], *, took_s: float) -> None:
        """Copy artifacts into a new entry.

        To be called by who holds its lock alone.

        :param paths: the files, relative to ``source``.
        """
        staging = self._staging(key)
        shutil.rmtree(staging, ignore_errors=True)
        for path in paths:
            target = staging / _FILES / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / path, target)
        commit, _, profile = key.partition("-")
        manifest = Manifest(commit, profile, took_s, _listed(staging / _FILES))
        (staging / _MANIFEST).write_bytes(_TYPE.dump_json(manifest, indent=1))
        _to_disk(staging)
        entry = self._entry(key)
        entry.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(entry, ignore_errors=True)  # one that cannot be trusted
        staging.rename(entry)

    def evict(self) -> None:
        """Remove the entries that were not used for the longest time, and what kills left behind.

        What somebody uses or builds stays, even where there is more of it than may be kept.
        """
        begun = {path.name for path in self._folder.glob("staging/*")}
        locks = {path.stem for path in self._folder.glob("kept/*.lock")}
        for key in begun | {key for key in locks if not self._entry(key).exists()}:
            self._remove_unused(key, keep_entry=True)
        entries = {
            path.name: modified(self.lock(path.name)) for path in self._folder.glob("kept/*") if path.is_dir()
        }
        oldest = sorted(entries, key=lambda key: entries[key])
        for key in oldest[: max(0, len(entries) - self.maximum)]:
            self._remove_unused(key)

    def _remove_unused(self, key: str, *, keep_entry: bool = False) -> None:
        holding = taken(self.lock(key), wait=False)
        if holding is None:
            return
        try:
            shutil.rmtree(self._staging(key), ignore_errors=True)
            if not keep_entry:
                shutil.rmtree(self._entry(key), ignore_errors=True)
            if not self._entry(key).exists():
                self.lock(key).unlink(missing_ok=True)
        finally:
            os.close(holding)

    def _entry(self, key: str) -> Path:
        return self._folder / "kept" / key

    def _staging(self, key: str) -> Path:
        return self._folder / "staging" / key


def modified(path: Path) -> float:
    """Return when a file was last written, in seconds; 0 if it is gone."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _listed(folder: Path) -> dict[str, File]:
    """Return all files below a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            found[path.relative_to(folder).as_posix()] = File(path.stat().st_size, digest)
    return found


def _to_disk(folder: Path) -> None:
    """Have the bytes on the disk before their name says that they are complete."""
    for path in [*folder.rglob("*"), folder]:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
