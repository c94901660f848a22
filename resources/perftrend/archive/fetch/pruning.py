"""What leaves the cache when it grows too large: what was used longest ago, and nothing that is in use.

::

    users/gate        shared by who begins to use something, held alone by who removes
    users/….user      one for each use; held as long as it lasts, its time is when it began

The time of an object is when it was last used. So whatever has a time before the beginning of the oldest
use is used by nobody. The locks are those of the system, which takes them from a process that is killed;
the file that such a process leaves is removed by the next one that looks.
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

_KEPT = 0.9
"""Looking takes time, so that more is removed at once than is too much."""
_ROOM = 0.05
"""Where all that is too much is in use, nobody looks again before so much more has come."""


@dataclass(frozen=True, slots=True, order=True)
class _File:
    used_ns: int
    path: Path
    size: int


class Pruning:
    """Bounds a folder of objects and partial files; several threads and processes may use it.

    :param maximum_bytes: of all objects and partial files. What is in use may be more.
    """

    def __init__(self, folder: Path, maximum_bytes: int) -> None:
        self._folder = folder
        self._maximum = maximum_bytes
        self._room = 0.0
        """Bytes that may come until it has to be looked what is there."""
        self._one_at_a_time = threading.Lock()

    @contextmanager
    def using(self) -> Iterator[None]:
        """Let whatever is used within stay as long as this lasts."""
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
        """Note that an object is used now; return whether it is there."""
        with self._gate(fcntl.LOCK_SH):
            try:
                os.utime(path)
            except FileNotFoundError:
                return False
            return True

    def added(self, size: int) -> bool:
        """Remove what is too much after so many bytes have come; return whether anything went."""
        with self._one_at_a_time:
            self._room -= size
            if self._room >= 0:
                return False
            before, after = self._prune()
            self._room = max(self._maximum - after, self._maximum * _ROOM)
        return after < before

    def _prune(self) -> tuple[int, int]:
        """Return how many bytes there were, and how many there are."""
        with self._gate(fcntl.LOCK_EX) as gate:
            oldest_use_ns = _oldest_use(Path(gate.name).parent)
            files = sorted(self._files())
            before = after = sum(file.size for file in files)
            if before > self._maximum:
                for file in files:
                    if after <= self._maximum * _KEPT or file.used_ns >= oldest_use_ns:
                        break
                    if _removed(file.path):
                        after -= file.size
        return before, after

    def _files(self) -> Iterator[_File]:
        for pattern in ("objects/*/*", "partial/*.part"):
            for path in self._folder.glob(pattern):
                try:
                    told = path.stat()
                except FileNotFoundError:
                    continue  # a partial file has become an object
                yield _File(told.st_mtime_ns, path, told.st_size)

    @contextmanager
    def _gate(self, how: int) -> Iterator[IO[bytes]]:
        users = self._folder / "users"
        users.mkdir(parents=True, exist_ok=True)
        with (users / "gate").open("ab") as gate:
            fcntl.flock(gate, how)
            yield gate


def _oldest_use(users: Path) -> float:
    """Return when the oldest use began, in nanoseconds; remove what killed processes left behind."""
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


def _removed(path: Path) -> bool:
    """Remove a file, unless somebody holds it; the note of a partial file goes first."""
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
    """Take the lock of a file if nobody holds it; return whether that is so."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_at(file: IO[bytes], path: Path) -> bool:
    """Tell whether a file that is open is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
