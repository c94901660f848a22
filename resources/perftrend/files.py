"""Files that others see whole or not at all, and locks that the kernel releases however their holder ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> Path:
    """Write a file so that its readers see the old content or the new one, and return its path.

    The content is written next to the file first. If that is interrupted, the next call overwrites what is
    left, so two processes must not write the same file at the same time.

    :raises OSError: if it cannot be written; the old content is then unchanged.
    """
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return unfinished.replace(path)


@contextmanager
def try_lock(path: Path) -> Generator[int | None]:
    """Lock a file or a folder that exists until the context ends, unless another process holds the lock.

    Yield the descriptor that holds the lock; None if another process holds it.

    :raises OSError: if the file does not exist, is a symbolic link, or cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        yield descriptor if lock_descriptor(descriptor) else None
    finally:
        os.close(descriptor)


def lock_descriptor(descriptor: int) -> bool:
    """Lock an open file, unless another process holds the lock; return whether it is locked now."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def acquire_lock(path: Path, *, shared: bool = False, wait: bool = True) -> int | None:
    """Acquire the lock of a file, and create the file if it does not exist.

    The file may be removed while it is locked: the next process then locks a new one.

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
        if is_at(descriptor, path):
            return descriptor
        os.close(descriptor)


@contextmanager
def hold_lock(path: Path, *, on_wait: Callable[[], None] | None = None) -> Generator[int]:
    """Hold the exclusive lock of a file, which is created if it does not exist.

    :param on_wait: called once before waiting for another holder.
    """
    descriptor = acquire_lock(path, wait=False)
    if descriptor is None:
        if on_wait:
            on_wait()
        descriptor = acquire_lock(path)
    assert descriptor is not None  # noqa: S101 - the call waited for it
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def is_at(descriptor: int, path: Path) -> bool:
    """Return whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
