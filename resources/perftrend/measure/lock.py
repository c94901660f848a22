"""A testbed is used by as many jobs at once as it has capacity for: usually one."""

from __future__ import annotations

import contextlib
import fcntl
import os
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
    # Opened for reading first: a file that another user made can be locked, but not written.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        os.fchmod(descriptor, 0o644)  # whatever this user's mask is, others must be able to lock it
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    # The text only helps a person. Another user's file is left alone, and ours is written through the
    # descriptor: its name may by now lead elsewhere.
    if os.fstat(descriptor).st_uid == os.geteuid():
        Path(f"/proc/self/fd/{descriptor}").write_text(f"{owner or 'a job'} (process {os.getpid()})")
    return descriptor


def _holder(path: Path) -> str:
    try:
        return path.read_text().strip() or "another job"
    except OSError:
        return "another job"
