"""What was fetched, kept by content; and what is half fetched, kept so that it can go on.

::

    objects/ab/abcdef…      the bytes, named by their SHA-256
    index/12/123456….json   where they came from: location, version, SHA-256; named by the location's
    partial/123456….part    the bytes so far
    partial/123456….json    which version of the file they are of

Each file appears whole, by renaming. The order makes a kill at any moment harmless: first the index
names the SHA-256, then the partial file becomes the object. An index without its object is no loss:
the complete partial file is still there, or the object was removed to make room for others.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pydantic import TypeAdapter, ValidationError

from perftrend.archive.fetch.builds import Checksum, Version
from perftrend.archive.fetch.pruning import Pruning, is_at

MAXIMUM_BYTES = 20 * 1024**3


@dataclass(frozen=True, slots=True)
class Entry:
    """Where an object came from."""

    location: str
    version: Version
    sha256: str


@dataclass(frozen=True, slots=True)
class Begun:
    """Which file a partial file is of."""

    location: str
    version: Version
    checksum: Checksum | None = None


_ENTRY = TypeAdapter(Entry)
_BEGUN = TypeAdapter(Begun)


class Cache:
    """A folder of fetched files; several threads and processes may use it.

    :param maximum_bytes: when there is more of it, what was used longest ago is removed.
    """

    def __init__(self, folder: Path, maximum_bytes: int = MAXIMUM_BYTES) -> None:
        self._folder = folder
        self._pruning = Pruning(folder, maximum_bytes)

    def using(self) -> AbstractContextManager[None]:
        """Let whatever is found or kept within stay as long as this lasts."""
        return self._pruning.using()

    def object(self, sha256: str) -> Path:
        """Return where the bytes with this SHA-256 lie, or would lie."""
        return self._folder / "objects" / sha256[:2] / sha256

    def find(self, location: str) -> Entry | None:
        """Return what is known of a location; None if its bytes are not here."""
        entry = self._entry(location)
        return entry if entry and self.object(entry.sha256).exists() else None

    def _entry(self, location: str) -> Entry | None:
        try:
            entry = _ENTRY.validate_json(self._index(location).read_bytes())
        except (FileNotFoundError, ValidationError):
            return None
        return entry if entry.location == location else None

    @contextmanager
    def partial(self, location: str) -> Generator[Partial, None, None]:
        """Hold the partial file of a location; whoever else wants it waits."""
        path = self._folder / "partial" / f"{_key(location)}.part"
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            with path.open("ab") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                # Who held it before may have made it the object: then this is no longer its file.
                if is_at(file, path):
                    held = Partial(file, path)
                    try:
                        yield held
                    finally:
                        if not held.size and is_at(file, path):
                            held.discard()
                    return

    def keep(self, partial: Partial, entry: Entry) -> Path:
        """Make a complete partial file an object; what is too much then makes room."""
        partial.flush()
        _write(self._index(entry.location), _ENTRY.dump_json(entry))
        size = partial.size
        path = self._become_object(partial, entry.sha256)
        if self._pruning.added(size):
            self._forget_removed()
        return path

    def recovered(self, partial: Partial, location: str) -> Entry | None:
        """Finish what a kill left behind between index and object; None if there is nothing."""
        entry = self._entry(location)
        if entry is None:
            return None
        path = self.object(entry.sha256)
        if self._pruning.use(path):
            if _digest(path, "sha256") == entry.sha256:
                return entry
            path.unlink()  # the disk damaged it
        if partial.size and partial.digest("sha256") == entry.sha256:
            self._become_object(partial, entry.sha256)
            return entry
        return None

    def _become_object(self, partial: Partial, sha256: str) -> Path:
        path = self.object(sha256)
        path.parent.mkdir(parents=True, exist_ok=True)
        # What a kill left complete may have an old time, and begins to be used as a partial file.
        os.utime(partial.path)
        partial.path.replace(path)
        partial.forget()
        return path

    def _forget_removed(self) -> None:
        """Remove what the index tells of objects that are no more."""
        for path in self._folder.glob("index/*/*.json"):
            try:
                entry = _ENTRY.validate_json(path.read_bytes())
            except (FileNotFoundError, ValidationError):
                continue
            # The order matters: what is partial now becomes an object.
            is_partial = (self._folder / "partial" / f"{path.stem}.part").exists()
            if not is_partial and not self.object(entry.sha256).exists():
                path.unlink(missing_ok=True)

    def _index(self, location: str) -> Path:
        key = _key(location)
        return self._folder / "index" / key[:2] / f"{key}.json"


class Partial:
    """The bytes of a file so far; held by one at a time."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self.path = path
        self._file = file

    @property
    def size(self) -> int:
        """How many bytes are there."""
        return os.fstat(self._file.fileno()).st_size

    def begun(self, location: str) -> Begun | None:
        """Return which version the bytes are of; None if that is not known: they are then no use."""
        try:
            begun = _BEGUN.validate_json(self._note.read_bytes())
        except (FileNotFoundError, ValidationError):
            return None
        return begun if begun.location == location else None

    def begin(self, begun: Begun) -> None:
        """Start from nothing."""
        self._file.truncate(0)
        _write(self._note, _BEGUN.dump_json(begun))

    def append(self, chunk: bytes) -> None:
        """Add bytes; they survive a kill from here on."""
        self._file.write(chunk)
        self._file.flush()

    def flush(self) -> None:
        """Bring the bytes to the disk."""
        os.fsync(self._file.fileno())

    def drop(self) -> None:
        """Throw the bytes away: they are not what they should be."""
        self._file.truncate(0)
        self.forget()

    def discard(self) -> None:
        """Remove the file and its note: there was nothing to fetch."""
        self.forget()
        self.path.unlink(missing_ok=True)

    def forget(self) -> None:
        """Remove the note: the bytes are an object now, or gone."""
        self._note.unlink(missing_ok=True)

    def digest(self, algorithm: str) -> str:
        """Return the hex digest of the bytes."""
        return _digest(self.path, algorithm)

    def beginning(self, length: int) -> bytes:
        """Return the first bytes."""
        with self.path.open("rb") as file:
            return file.read(length)

    @property
    def _note(self) -> Path:
        return self.path.with_suffix(".json")


def _write(path: Path, content: bytes) -> None:
    """Write a small file so that it appears whole; what a power cut loses is fetched anew.

    Whoever writes holds the location's partial file. So what a kill leaves behind is written over.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_bytes(content)
    fresh.replace(path)


def _digest(path: Path, algorithm: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def _key(location: str) -> str:
    return hashlib.sha256(location.encode()).hexdigest()
