"""Removal of the least recently used files if the cache grows too large, except files in use.

::

    users/gate        locked shared to begin a use, and exclusively to remove files
    users/….user      one for each use, locked while it lasts; its time is the start of the use

The time of an object is that of its last use. Therefore objects with a time before the start of the oldest
use are not in use. The kernel releases the locks of a process that is killed; the file that the process
leaves is removed by the next pruning.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_REMAINING_FRACTION = 0.9
"""Fraction of the maximum that remains. Scanning takes time, so more than the excess is removed at once."""
_ROOM = 0.05
"""If all of the excess is in use, the next scan follows after this fraction of the maximum was added."""


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
            with self._gate(fcntl.LOCK_SH) as gate:
                users = Path(gate.name).parent
                user = until_end.enter_context(
                    tempfile.NamedTemporaryFile(dir=users, suffix=".user", delete=False)
                )
                until_end.callback(Path(user.name).unlink, missing_ok=True)
                fcntl.flock(user, fcntl.LOCK_EX)
            yield

    def use(self, path: Path) -> bool:
        """Mark an object as used now; return whether it exists."""
        with self._gate(fcntl.LOCK_SH):
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
        with self._gate(fcntl.LOCK_EX) as gate:
            oldest_use_ns = _oldest_use(Path(gate.name).parent)
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
    def _gate(self, how: int) -> Iterator[IO[bytes]]:
        users = self._folder / "users"
        users.mkdir(parents=True, exist_ok=True)
        with (users / "gate").open("ab") as gate:
            fcntl.flock(gate, how)
            yield gate


def _oldest_use(users: Path) -> float:
    """Return the start of the oldest use in nanoseconds; remove files left over by killed processes."""
    oldest = float("inf")
    for path in users.glob("*.user"):
        try:
            with path.open("rb") as user:
                if has_lock(user):
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
            if not has_lock(file) or not is_at(file, path):
                return False
            if path.suffix:
                path.with_suffix(".json").unlink(missing_ok=True)
            path.unlink()
    except FileNotFoundError:
        return False
    return True


def has_lock(file: IO[bytes]) -> bool:
    """Acquire the lock of a file if it is free; return whether it was acquired."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_at(file: IO[bytes], path: Path) -> bool:
    """Return whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
