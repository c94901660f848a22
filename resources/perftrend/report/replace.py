"""Atomic replacement of a directory: readers see the old one or the new one, never half of one.

The new content is written next to the old one, and one system call exchanges the two. An error or a
kill before that leaves the old one unchanged.
"""

from __future__ import annotations

import ctypes
import errno
import glob
import os
import secrets
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from perftrend.errors import UsageError

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_CANNOT_EXCHANGE = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP})
_ABANDONED_S = 3600.0


@contextmanager
def replace_directory(directory: Path, *, names: Collection[str]) -> Iterator[Path]:
    """Yield an empty directory to fill, which replaces ``directory`` at the end.

    :param directory: the directory to replace; its parents are created.
    :param names: the names that the old directory may contain; other files are not ours to delete.
    :raises UsageError: if the old directory contains anything else, or is a file.
    :raises OSError: if a file cannot be written; nothing is changed then.
    """
    target = directory.resolve()
    _refuse_foreign(target, names=names)
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


def _refuse_foreign(target: Path, *, names: Collection[str]) -> None:
    if not target.exists():
        return
    if not target.is_dir():
        raise UsageError(f"{target} is a file; name a directory for the report")
    foreign = sorted(entry.name for entry in target.iterdir() if entry.name not in names)
    if foreign:
        raise UsageError(
            f"{target} contains {foreign[0]!r}, which is not part of a report; name a separate directory"
        )


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
        # A file system without exchange: for a moment there is no report, but never half of one.
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
