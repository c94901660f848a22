"""A testbed is used by as many jobs at once as it has capacity for: usually one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from perftrend import errors

HELD = "HELD_PERFTREND_TESTBED"
"""Environment variable: the lock that the parent process holds, for it and for its children."""
HELD_INSTANCE = "HELD_PERFTREND_INSTANCE"
"""Environment variable: which instance of the testbed that is."""

FOLDER = Path("/tmp")  # noqa: S108 - locks must be where every user and every job looks, whatever its TMPDIR
_MODE = 0o666
"""Every user must be able to lock the file and to write the holder's name into it."""
_LONGEST_HOLDER = 300
_LOOK_EVERY_S = 0.2
_SAY_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class Place:
    """One of a testbed's places, held."""

    descriptor: int
    """The file descriptor that holds it; -1 if a parent process does."""
    instance: int = 0
    """Which of the testbed's instances it is, from 0."""


@contextlib.contextmanager
def held(
    name: str,
    *,
    capacity: int = 1,
    wait_s: float = 0.0,
    owner: str = "",
    say: Callable[[str], None] | None = None,
) -> Iterator[Place]:
    """Hold one of the testbed's places; the kernel gives it back however this process ends.

    :param name: the lock of the testbed's file.
    :param wait_s: how long to wait for a place.
    :param owner: who holds it, for the others' messages.
    :param say: told once a minute who is waited for.
    :returns: the place. A child that inherits its file descriptor holds it as well, and is told so by the
        variables :data:`HELD` and :data:`HELD_INSTANCE`.
    :raises TestbedError: if all places are taken for so long.
    """
    if os.environ.get(HELD) == name:
        yield Place(-1, int(os.environ.get(HELD_INSTANCE, "0")))
        return
    end = time.monotonic() + wait_s
    next_say = 0.0
    while True:
        for slot in range(capacity):
            descriptor = _try(_file(name, slot), owner)
            if descriptor is not None:
                try:
                    yield Place(descriptor, slot)
                finally:
                    os.close(descriptor)
                return
        now = time.monotonic()
        holder = _holder(_file(name, 0))
        if now >= end:
            raise errors.TestbedError(
                f"testbed {name} is in use by {holder}; wait longer with --wait SECONDS"
            )
        if say and now >= next_say:
            say(f"testbed {name} is in use by {holder}; waiting for up to {end - now:.0f} s")
            next_say = now + _SAY_EVERY_S
        time.sleep(min(_LOOK_EVERY_S, max(0.0, end - now)))


def _file(name: str, slot: int) -> Path:
    return FOLDER / f"perftrend-{name}.{slot}.lock"


def _try(path: Path, owner: str) -> int | None:
    descriptor = _open(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    _write_holder(descriptor, f"{owner or 'a job'} (process {os.getpid()})")
    return descriptor


def _open(path: Path) -> int:
    # Not blocking: there may be a named pipe in the place of the file.
    flags = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        return os.open(path, os.O_RDWR | flags)
    except PermissionError:
        return os.open(path, os.O_RDONLY | flags)  # enough to lock it
    except FileNotFoundError:
        pass
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | flags, _MODE)
    except FileExistsError:  # another job was faster
        return _open(path)
    os.fchmod(descriptor, _MODE)  # whatever this user's mask is
    return descriptor


def _write_holder(descriptor: int, holder: str) -> None:
    state = os.fstat(descriptor)
    is_writable = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR
    # A second name could be that of a file with other contents.
    if is_writable and stat.S_ISREG(state.st_mode) and state.st_nlink == 1:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, holder.encode(), 0)


def _holder(path: Path) -> str:
    """Return who wrote its name last, unless it has ended: then the holder could not write its own."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            text = (file.read(_LONGEST_HOLDER) or b"").decode(errors="replace")
    except OSError:
        return "another job"
    written = re.fullmatch(r"(.+) \(process (\d+)\)", text)
    # Every user can write into the file, and this goes to a terminal.
    if written is None or not text.isprintable() or not Path(f"/proc/{written[2]}").exists():
        return "another job"
    return text
