"""Cache of fetched files, addressed by content, and of partial files, which can be resumed.

::

    objects/ab/abcdef…      the bytes, named by their SHA-256
    index/12/123456….json   origin: location, version, SHA-256; named by the SHA-256 of the location
    partial/123456….part    the bytes so far
    partial/123456….json    the version of the file that they belong to
    users/gate              locked shared to begin a use, and exclusively to remove files
    users/….user            one for each use, locked while it lasts; its time is the start of the use

Each file is renamed to its name when it is complete. The order makes a kill at any time harmless: first the
SHA-256 is written to the index, then the partial file becomes the object. An index entry without its object
is harmless: either the complete partial file still exists, or the object was removed to free space.

If the cache grows too large, the least recently used files are removed, except files in use. The time of an
object is that of its last use. Therefore objects with a time before the start of the oldest use are not in
use. The kernel releases the locks of a process that is killed; the file that the process leaves is removed
by the next pruning.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
import threading
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pydantic import TypeAdapter, ValidationError

from perftrend.archive.fetch.builds import Checksum, Version
from perftrend.files import acquire_lock, is_at, lock_descriptor, write_whole

MAXIMUM_BYTES = 20 * 1024**3

_REMAINING_FRACTION = 0.9
"""Fraction of the maximum that remains. Scanning takes time, so more than the excess is removed at once."""
_ROOM = 0.05
"""If all of the excess is in use, the next scan follows after this fraction of the maximum was added."""


@dataclass(frozen=True, slots=True)
class CachedObject:
    """The origin of an object."""

    location: str
    version: Version
    sha256: str


@dataclass(frozen=True, slots=True)
class PartialFile:
    """The file that a partial file belongs to."""

    location: str
    version: Version
    checksum: Checksum | None = None


_ENTRY = TypeAdapter(CachedObject)


_BEGUN = TypeAdapter(PartialFile)


class FileCache:
    """A folder of fetched files; several threads and processes may use it.

    :param maximum_bytes: if the cache is larger, the least recently used files are removed.
    """

    def __init__(self, folder: Path, maximum_bytes: int = MAXIMUM_BYTES) -> None:
        self._folder = folder
        self._pruning = Pruning(folder, maximum_bytes)

    def pin_files(self) -> AbstractContextManager[None]:
        """Prevent the removal of files that are found or stored within this context."""
        return self._pruning.pin_files()

    def object(self, sha256: str) -> Path:
        """Return the path of the bytes with this SHA-256, whether or not they exist."""
        return self._folder / "objects" / sha256[:2] / sha256

    def find(self, location: str) -> CachedObject | None:
        """Return the entry of a location; None if its bytes are not in the cache."""
        entry = self._entry(location)
        return entry if entry and self.object(entry.sha256).exists() else None

    def _entry(self, location: str) -> CachedObject | None:
        try:
            entry = _ENTRY.validate_json(self._index(location).read_bytes())
        except (FileNotFoundError, ValidationError):
            return None
        return entry if entry.location == location else None

    @contextmanager
    def partial(self, location: str) -> Generator[Partial, None, None]:
        """Lock and yield the partial file of a location; other users of it wait."""
        path = self._folder / "partial" / f"{_key(location)}.part"
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            with path.open("ab") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                # The previous holder may have made it the object. Then the path has another file.
                if is_at(file.fileno(), path):
                    held = Partial(file, path)
                    try:
                        yield held
                    finally:
                        if not held.size and is_at(file.fileno(), path):
                            held.discard()
                    return

    def store(self, partial: Partial, entry: CachedObject) -> Path:
        """Make a complete partial file an object; then remove files if the cache is too large."""
        partial.flush()
        index = self._index(entry.location)
        index.parent.mkdir(parents=True, exist_ok=True)
        # If a power failure loses it, the file is fetched again. The partial file's lock is held.
        write_whole(index, _ENTRY.dump_json(entry))
        size = partial.size
        path = self._become_object(partial, entry.sha256)
        if self._pruning.add_bytes(size):
            self._forget_removed()
        return path

    def recover(self, partial: Partial, location: str) -> CachedObject | None:
        """Complete a change that was killed between index and object; None if there is nothing to recover."""
        entry = self._entry(location)
        if entry is None:
            return None
        path = self.object(entry.sha256)
        if self._pruning.use(path):
            if _digest(path, "sha256") == entry.sha256:
                return entry
            path.unlink()  # damaged on disk
        if partial.size and partial.digest("sha256") == entry.sha256:
            self._become_object(partial, entry.sha256)
            return entry
        return None

    def _become_object(self, partial: Partial, sha256: str) -> Path:
        path = self.object(sha256)
        path.parent.mkdir(parents=True, exist_ok=True)
        # A file that a kill left complete may have an old time: mark it as used before it becomes an object.
        os.utime(partial.path)
        partial.path.replace(path)
        partial.forget()
        return path

    def _forget_removed(self) -> None:
        """Remove index entries of objects that no longer exist."""
        for path in self._folder.glob("index/*/*.json"):
            try:
                entry = _ENTRY.validate_json(path.read_bytes())
            except (FileNotFoundError, ValidationError):
                continue
            # Check in this order: a partial file may become an object meanwhile.
            is_partial = (self._folder / "partial" / f"{path.stem}.part").exists()
            if not is_partial and not self.object(entry.sha256).exists():
                path.unlink(missing_ok=True)

    def _index(self, location: str) -> Path:
        key = _key(location)
        return self._folder / "index" / key[:2] / f"{key}.json"


class Partial:
    """The bytes of a file so far; locked by one user at a time."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self.path = path
        self._file = file

    @property
    def size(self) -> int:
        """Number of bytes."""
        return os.fstat(self._file.fileno()).st_size

    def read_origin(self, location: str) -> PartialFile | None:
        """Return the file and version of the bytes; None if they are not known, so that they are useless."""
        try:
            begun = _BEGUN.validate_json(self._note.read_bytes())
        except (FileNotFoundError, ValidationError):
            return None
        return begun if begun.location == location else None

    def begin(self, begun: PartialFile) -> None:
        """Start with an empty file."""
        self._file.truncate(0)
        write_whole(self._note, _BEGUN.dump_json(begun))

    def append(self, chunk: bytes) -> None:
        """Append bytes; they survive a kill from here on."""
        self._file.write(chunk)
        self._file.flush()

    def flush(self) -> None:
        """Write the bytes to disk."""
        os.fsync(self._file.fileno())

    def drop(self) -> None:
        """Discard the bytes, which are not valid."""
        self._file.truncate(0)
        self.forget()

    def discard(self) -> None:
        """Remove the file and its note, since nothing was fetched."""
        self.forget()
        self.path.unlink(missing_ok=True)

    def forget(self) -> None:
        """Remove the note, since the bytes are an object now, or were discarded."""
        self._note.unlink(missing_ok=True)

    def digest(self, algorithm: str) -> str:
        """Return the hex digest of the bytes."""
        return _digest(self.path, algorithm)

    def read_head(self, length: int) -> bytes:
        """Return the first bytes."""
        with self.path.open("rb") as file:
            return file.read(length)

    @property
    def _note(self) -> Path:
        return self.path.with_suffix(".json")


def _digest(path: Path, algorithm: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def _key(location: str) -> str:
    return hashlib.sha256(location.encode()).hexdigest()


@dataclass(frozen=True, slots=True, order=True)
class _File:
    used_ns: int
    path: Path
    size: int


class Pruning:
    """Limits a folder of objects and partial files; several threads and processes may use it.

    :param maximum_bytes: of all objects and partial files. Files in use are retained even beyond it.
    """

    def __init__(self, folder: Path, maximum_bytes: int) -> None:
        self._folder = folder
        self._maximum = maximum_bytes
        self._room = 0.0
        """Bytes that may be added before the next scan."""
        self._one_at_a_time = threading.Lock()

    @contextmanager
    def pin_files(self) -> Iterator[None]:
        """Prevent the removal of files that are used within this context."""
        with ExitStack() as until_end:
            with self._gate(shared=True) as users:
                user = until_end.enter_context(
                    tempfile.NamedTemporaryFile(dir=users, suffix=".user", delete=False)
                )
                until_end.callback(Path(user.name).unlink, missing_ok=True)
                lock_descriptor(user.fileno())
            yield

    def use(self, path: Path) -> bool:
        """Mark an object as used now; return whether it exists."""
        with self._gate(shared=True):
            try:
                os.utime(path)
            except FileNotFoundError:
                return False
            return True

    def add_bytes(self, size: int) -> bool:
        """Count added bytes and prune if necessary; return whether files were removed."""
        with self._one_at_a_time:
            self._room -= size
            if self._room >= 0:
                return False
            before, after = self._prune()
            self._room = max(self._maximum - after, self._maximum * _ROOM)
        return after < before

    def _prune(self) -> tuple[int, int]:
        """Remove files that exceed the limit; return the bytes before and after."""
        with self._gate(shared=False) as users:
            oldest_use_ns = _oldest_use(users)
            files = sorted(self._files())
            before = after = sum(file.size for file in files)
            if before > self._maximum:
                for file in files:
                    if after <= self._maximum * _REMAINING_FRACTION or file.used_ns >= oldest_use_ns:
                        break
                    if _remove(file.path):
                        after -= file.size
        return before, after

    def _files(self) -> Iterator[_File]:
        for pattern in ("objects/*/*", "partial/*.part"):
            for path in self._folder.glob(pattern):
                try:
                    status = path.stat()
                except FileNotFoundError:
                    continue  # a partial file has become an object
                yield _File(status.st_mtime_ns, path, status.st_size)

    @contextmanager
    def _gate(self, *, shared: bool) -> Iterator[Path]:
        """Hold the lock that begins a use (shared) or a removal (exclusive); yield the folder of uses."""
        users = self._folder / "users"
        descriptor = acquire_lock(users / "gate", shared=shared)
        assert descriptor is not None  # noqa: S101 - the call waits for it
        try:
            yield users
        finally:
            os.close(descriptor)


def _oldest_use(users: Path) -> float:
    """Return the start of the oldest use in nanoseconds; remove files left over by killed processes."""
    oldest = float("inf")
    for path in users.glob("*.user"):
        try:
            with path.open("rb") as user:
                if lock_descriptor(user.fileno()):
                    path.unlink()
                else:
                    oldest = min(oldest, os.fstat(user.fileno()).st_mtime_ns)
        except FileNotFoundError:
            continue  # that use has ended
    return oldest


def _remove(path: Path) -> bool:
    """Remove a file, unless it is locked; the note of a partial file is removed first."""
    try:
        with path.open("rb") as file:
            if not lock_descriptor(file.fileno()) or not is_at(file.fileno(), path):
                return False
            if path.suffix:
                path.with_suffix(".json").unlink(missing_ok=True)
            path.unlink()
    except FileNotFoundError:
        return False
    return True
