"""Locks on files that may be removed: the kernel releases them however their holder ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path


def acquire(path: Path, *, shared: bool = False, wait: bool = True) -> int | None:
    """Acquire the lock of a file, and create the file if it does not exist.

    :param shared: acquire it shared: others may hold it shared as well.
    :param wait: False: return None instead of waiting if the lock is held.
    :returns: the descriptor that holds it; closing it releases the lock.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    how = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(descriptor, how)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        # The previous holder may have removed the file. This lock then protects nothing.
        if _is_at(descriptor, path):
            return descriptor
        os.close(descriptor)


@contextmanager
def hold(path: Path, *, on_wait: Callable[[], None] | None = None) -> Generator[int]:
    """Hold the exclusive lock of a file.

    :param on_wait: called once before waiting for another holder.
    """
    descriptor = acquire(path, wait=False)
    if descriptor is None:
        if on_wait:
            on_wait()
        descriptor = acquire(path)
    assert descriptor is not None  # noqa: S101 - the call waited for it
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
