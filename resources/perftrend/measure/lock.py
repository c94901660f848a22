"""Locks that limit the number of jobs on a testbed to its capacity, usually one."""

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
from perftrend.files import lock_descriptor

HELD = "HELD_PERFTREND_TESTBED"
"""Environment variable: the lock that the parent process holds for itself and its children."""
HELD_INSTANCE = "HELD_PERFTREND_INSTANCE"
"""Environment variable: the number of the testbed instance of that lock."""
HELD_LOCK = "HELD_PERFTREND_LOCK"
"""Environment variable: the token of the parent's lock on the generator's node; empty if it has none."""

FOLDER = Path("/tmp")  # noqa: S108 - all users and jobs must use the same folder, whatever their TMPDIR
_MODE = 0o666
"""Every user must be able to lock the file and to write the holder's name into it."""
_LONGEST_HOLDER = 300
_LOOK_EVERY_S = 0.2
_REPORT_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class LockedPlace:
    """A locked place on a testbed."""

    descriptor: int
    """The file descriptor that holds the lock; -1 if a parent process holds it."""
    instance: int = 0
    """The number of the testbed instance, from 0."""
    token: str = ""
    """The token of the job's lock on the generator's node; empty if it has none."""


@contextlib.contextmanager
def hold(
    name: str,
    *,
    capacity: int = 1,
    wait_s: float = 0.0,
    owner: str = "",
    what: str = "",
    report: Callable[[str], None] | None = None,
) -> Iterator[LockedPlace]:
    """Acquire one of the testbed's places; the kernel releases it however this process ends.

    :param name: the name of the lock, from the testbed's file.
    :param wait_s: maximum time to wait for a place.
    :param owner: name of the holder, for messages of other jobs.
    :param what: what is locked, for messages; empty for the testbed.
    :param report: called once a minute with a message that names the current holder.
    :returns: the place. A child process that inherits its file descriptor also holds it, and learns that from
        the variables :data:`HELD`, :data:`HELD_INSTANCE` and :data:`HELD_LOCK`.
    :raises TestbedError: if no place becomes free within that time.
    """
    if os.environ.get(HELD) == name:
        instance, token = os.environ.get(HELD_INSTANCE, "0"), os.environ.get(HELD_LOCK, "")
        yield LockedPlace(-1, int(instance), token)
        return
    end = time.monotonic() + wait_s
    what = what or f"testbed {name}"
    next_report = 0.0
    while True:
        for slot in range(capacity):
            descriptor = _try(_file(name, slot), owner)
            if descriptor is not None:
                try:
                    yield LockedPlace(descriptor, slot)
                finally:
                    os.close(descriptor)
                return
        now = time.monotonic()
        holder = _holder(_file(name, 0))
        if now >= end:
            raise errors.TestbedError(f"{what} is in use by {holder}; wait longer with --wait SECONDS")
        if report and now >= next_report:
            report(f"{what} is in use by {holder}; waiting for up to {end - now:.0f} s")
            next_report = now + _REPORT_EVERY_S
        time.sleep(min(_LOOK_EVERY_S, max(0.0, end - now)))


def holders(name: str, *, capacity: int = 1) -> list[str]:
    """Return who uses the places of a testbed now, without acquiring one.

    :raises OSError: if a lock file cannot be used by this user.
    """
    found = []
    for path in (_file(name, slot) for slot in range(capacity)):
        if not os.path.lexists(path):
            continue
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            found.append(_holder(path))
        finally:
            os.close(descriptor)
    return found


def _file(name: str, slot: int) -> Path:
    return FOLDER / f"perftrend-{name}.{slot}.lock"


def _try(path: Path, owner: str) -> int | None:
    descriptor = _open(path)
    if not lock_descriptor(descriptor):
        os.close(descriptor)
        return None
    _write_holder(descriptor, f"{owner or 'a job'} (process {os.getpid()})")
    return descriptor


def _open(path: Path) -> int:
    # Non-blocking, because the path may be a named pipe.
    flags = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        return os.open(path, os.O_RDWR | flags)
    except PermissionError:
        return os.open(path, os.O_RDONLY | flags)  # enough to lock the file
    except FileNotFoundError:
        pass
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | flags, _MODE)
    except FileExistsError:  # another job was faster
        return _open(path)
    os.fchmod(descriptor, _MODE)  # regardless of this user's umask
    return descriptor


def _write_holder(descriptor: int, holder: str) -> None:
    state = os.fstat(descriptor)
    is_writable = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR
    # A second hard link could belong to a file with other contents.
    if is_writable and stat.S_ISREG(state.st_mode) and state.st_nlink == 1:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, holder.encode(), 0)


def _holder(path: Path) -> str:
    """Return the holder's name from the lock file, or ``another job`` if it is not usable.

    A holder without write access leaves the name of an earlier one, whose process may have ended.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            text = (file.read(_LONGEST_HOLDER) or b"").decode(errors="replace")
    except OSError:
        return "another job"
    written = re.fullmatch(r"(.+) \(process (\d+)\)", text)
    # Every user can write to the file, and the text is printed to a terminal.
    if written is None or not text.isprintable() or not Path(f"/proc/{written[2]}").exists():
        return "another job"
    return text
