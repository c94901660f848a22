"""Files and folders that others see whole or not at all; locks, and private folders with a lock."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import glob
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_CANNOT_EXCHANGE = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP})
_ABANDONED_S = 3600.0


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
def replace_directory(directory: Path) -> Generator[Path]:
    """Yield an empty directory to fill, which replaces ``directory`` at the end, whatever that contains.

    Readers see the old directory or the new one, never half of one: the new content is written next to the
    old one, and one system call exchanges the two. An error or a kill before that leaves the old one
    unchanged. What a killed writer left is removed after an hour.

    :param directory: the directory to replace; its parents are created.
    :raises OSError: if a file cannot be written; nothing is changed then.
    """
    target = directory.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(target)
    # Not tempfile: only the owner can read its directories, and a web server runs as another user.
    fresh = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    fresh.mkdir()
    try:
        yield fresh
        _swap(fresh, target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


@contextmanager
def stage_folder(target: Path) -> Generator[Path]:
    """Provide a folder to fill, which becomes ``target`` at the end; after an error it is removed.

    Folders that killed processes left in the same place are removed.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    for abandoned in target.parent.glob(".*.unfinished"):
        with try_lock(abandoned) as lock:
            if lock is not None:
                shutil.rmtree(abandoned, ignore_errors=True)
    staging = target.with_name(f".{target.name}.unfinished")
    staging.mkdir()
    try:
        with try_lock(staging):
            yield staging
            staging.rename(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def remove_tree(directory: Path) -> None:
    """Remove a directory, whatever the program of another one has done in it."""
    with suppress(RecursionError):
        shutil.rmtree(directory, ignore_errors=True)
    if directory.exists():
        # For directories without permissions, and for those that are nested too deeply for Python.
        for command in ("chmod", "--recursive", "u+rwX"), ("rm", "--recursive", "--force"):
            subprocess.run([*command, "--", str(directory)], capture_output=True, check=False)


def _remove_abandoned(target: Path) -> None:
    """Remove leftovers of killed writers; a recent one may still be in use."""
    for left in target.parent.glob(f".{glob.escape(target.name)}.*.tmp"):
        # Another writer may remove it at the same time.
        with suppress(FileNotFoundError):
            if time.time() - left.stat().st_mtime > _ABANDONED_S:
                shutil.rmtree(left, ignore_errors=True)


def _swap(fresh: Path, target: Path) -> None:
    if not target.exists():
        fresh.rename(target)
        return
    try:
        _exchange(fresh, target)
    except OSError as error:
        if error.errno not in _CANNOT_EXCHANGE:
            raise
        # A file system without exchange: for a moment there is no directory, but never half of one.
        old = fresh.with_suffix(".old.tmp")
        target.rename(old)
        try:
            fresh.rename(target)
        except OSError:
            old.rename(target)
            raise
        shutil.rmtree(old, ignore_errors=True)


def _exchange(one: Path, other: Path) -> None:
    """Exchange two directories; see renameat2(2)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(other))


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


def _do_nothing(_: Path) -> None:
    """Do nothing."""


@contextmanager
def private_folder(
    place: Path, prefix: str, *, removed: Callable[[Path], None] = _do_nothing
) -> Generator[Path]:
    """Provide the path of a private folder within ``place``, which does not exist yet.

    The folder is removed afterwards. Folders left over by killed processes are removed first. Other users
    of this machine have no access to ``place``. It contains::

        1234567890ab-x7f3q2/        a folder
        1234567890ab-x7f3q2.lock    locked while the folder is in use; otherwise the folder is left over

    :param prefix: of its name.
    :param removed: called with each folder that was removed.
    """
    place.mkdir(parents=True, exist_ok=True)
    # What is written there may be a set-user-ID program that other users of this machine must not run.
    place.chmod(0o700)
    for left in place.glob("*.lock"):
        holding = acquire_lock(left, wait=False)
        if holding is not None:
            _remove_private_folder(left, holding, removed)
    descriptor, name = tempfile.mkstemp(prefix=prefix, suffix=".lock", dir=place)
    os.close(descriptor)
    lock = Path(name)
    holding = acquire_lock(lock)
    assert holding is not None  # noqa: S101 - the call waited for it
    try:
        yield lock.with_suffix("")
    finally:
        _remove_private_folder(lock, holding, removed)


def _remove_private_folder(lock: Path, holding: int, removed: Callable[[Path], None]) -> None:
    path = lock.with_suffix("")
    try:
        _end_processes_in(path)
        remove_tree(path)
        removed(path)
        if not path.exists():
            lock.unlink(missing_ok=True)
    finally:
        os.close(holding)


def _end_processes_in(path: Path) -> None:
    """End processes that still run in a folder, such as the compilers of a build whose parent was killed.

    A user's shell, which has a terminal, is left alone.
    """
    for process in Path("/proc").glob("[0-9]*"):
        # The process may end meanwhile, or belong to another user.
        with suppress(OSError):
            place = (process / "cwd").readlink()
            if place.is_relative_to(path) and not _has_terminal(process):
                os.kill(int(process.name), signal.SIGKILL)


def _has_terminal(process: Path) -> bool:
    """Return whether a process has a controlling terminal: tty_nr of proc_pid_stat(5) is not 0."""
    after_name = (process / "stat").read_text(errors="replace").rpartition(")")[2]
    return after_name.split()[4] != "0"
