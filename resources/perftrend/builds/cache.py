"""A cache of a bounded number of builds, by commit and by build configuration.

::

    kept/KEY/manifest.json      sizes and SHA-256 of the files, commit, build configuration
    kept/KEY/files/…            the artifacts
    kept/KEY.lock               shared while the files are used; exclusive while they are built or
                                removed; its time of modification is when they were last used
    staging/KEY/…               not yet complete

An entry appears complete, by renaming, and is verified from its manifest to its last byte before it is
used: an entry that a kill, a full disk or a user has damaged is never used as a build.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from perftrend.files import acquire_lock

_MANIFEST = "manifest.json"
_FILES = "files"


@dataclass(frozen=True, slots=True)
class BuiltCommit:
    """A commit that is built: its artifacts, ready for installation and measurement."""

    commit: str
    """40 hex digits."""
    folder: Path
    """The folder of the artifacts, at the paths that they had in the checkout; absolute."""
    device_options: Mapping[str, str]
    """Options for the driver of the testbed's device."""
    took_s: float
    """The duration of the build, now or when it was cached."""
    was_cached: bool
    """Whether it was in the cache."""


@dataclass(frozen=True, slots=True)
class BuiltFile:
    """A file of an entry."""

    size: int
    """In bytes."""
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The expected contents of an entry."""

    commit: str
    profile: str
    """The hash of the build configuration."""
    took_s: float
    files: Mapping[str, BuiltFile]
    """By their paths, relative to the folder of the artifacts."""


_TYPE = TypeAdapter(Manifest)


class BuildCache:
    """A folder of builds; several processes and threads may use it."""

    def __init__(self, folder: Path, maximum: int) -> None:
        self._folder = folder
        self.maximum = maximum

    def lock(self, key: str) -> Path:
        """Return the lock file of an entry, which is locked while the entry is built or used."""
        return self._folder / "kept" / f"{key}.lock"

    def files(self, key: str) -> Path:
        """Return the folder of the artifacts of an entry, which may not exist."""
        return self._entry(key) / _FILES

    def verify(self, key: str) -> Manifest | None:
        """Return the manifest of an entry; None if the entry does not exist, or was modified.

        The caller must hold its lock.
        """
        entry = self._entry(key)
        try:
            manifest = _TYPE.validate_json((entry / _MANIFEST).read_bytes())
            is_whole = f"{manifest.commit}-{manifest.profile}" == key and manifest.files == _list_files(
                entry / _FILES
            )
        except (FileNotFoundError, NotADirectoryError, ValidationError):
            return None
        return manifest if is_whole else None

    def touch(self, key: str) -> None:
        """Record that an entry is used now."""
        os.utime(self.lock(key))

    def add(self, key: str, source: Path, paths: Iterable[Path], *, took_s: float) -> None:
        """Copy artifacts into a new entry.

        The caller must hold its lock exclusively.

        :param paths: the files, relative to ``source``.
        """
        staging = self._staging(key)
        shutil.rmtree(staging, ignore_errors=True)
        for path in paths:
            target = staging / _FILES / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / path, target)
            # Another user of this machine would run it with the rights of the job.
            target.chmod(stat.S_IMODE(target.stat().st_mode) & ~(stat.S_ISUID | stat.S_ISGID))
        commit, _, profile = key.partition("-")
        manifest = Manifest(commit, profile, took_s, _list_files(staging / _FILES))
        (staging / _MANIFEST).write_bytes(_TYPE.dump_json(manifest, indent=1))
        _to_disk(staging)
        entry = self._entry(key)
        entry.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(entry, ignore_errors=True)  # one that is not valid
        staging.rename(entry)

    def evict(self) -> None:
        """Remove the least recently used entries, and leftovers of killed processes.

        Entries that are used or built remain, even if there are more than the maximum.
        """
        begun = {path.name for path in self._folder.glob("staging/*")}
        locks = {path.stem for path in self._folder.glob("kept/*.lock")}
        for key in begun | {key for key in locks if not self._entry(key).exists()}:
            self._remove_unused(key, retain_entry=True)
        entries = {
            path.name: modification_time(self.lock(path.name))
            for path in self._folder.glob("kept/*")
            if path.is_dir()
        }
        oldest = sorted(entries, key=lambda key: entries[key])
        for key in oldest[: max(0, len(entries) - self.maximum)]:
            self._remove_unused(key)

    def _remove_unused(self, key: str, *, retain_entry: bool = False) -> None:
        holding = acquire_lock(self.lock(key), wait=False)
        if holding is None:
            return
        try:
            shutil.rmtree(self._staging(key), ignore_errors=True)
            if not retain_entry:
                shutil.rmtree(self._entry(key), ignore_errors=True)
            if not self._entry(key).exists():
                self.lock(key).unlink(missing_ok=True)
        finally:
            os.close(holding)

    def _entry(self, key: str) -> Path:
        return self._folder / "kept" / key

    def _staging(self, key: str) -> Path:
        return self._folder / "staging" / key


def read_build_times(folder: Path, profile: str) -> list[float]:
    """Return the duration of each build in a cache, in seconds and in no order.

    :param profile: the hash of the build configuration.
    """
    manifests = map(_read_manifest, folder.glob(f"kept/*-{profile}"))
    return [manifest.took_s for manifest in manifests if manifest]


def _read_manifest(entry: Path) -> Manifest | None:
    """Return the manifest of an entry; None if there is none, or it is not valid."""
    try:
        return _TYPE.validate_json((entry / _MANIFEST).read_bytes())
    except (OSError, ValidationError):
        return None


def modification_time(path: Path) -> float:
    """Return when a file was last written, in seconds; 0 if it is gone."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _list_files(folder: Path) -> dict[str, BuiltFile]:
    """Return all files below a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            found[path.relative_to(folder).as_posix()] = BuiltFile(path.stat().st_size, digest)
    return found


def _to_disk(folder: Path) -> None:
    """Write the bytes to disk before their name marks them as complete."""
    for path in [*folder.rglob("*"), folder]:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
