"""Finds and removes archived folders and sessions that are older than the retention settings allow.

The age of a folder is that of the newest file or folder in it, so a folder in use is new. The following are
never removed: a job's newest build, which determines the number of the next one; a build that is not in the
store yet; and anything that a running process has locked. Symbolic links are neither followed nor removed on
their own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from perftrend.archive.ingestion import UNSTORED_MARK
from perftrend.errors import ArchiveError
from perftrend.files import acquire_lock, try_lock

_PRUNED = ".pruned"
"""Suffix of a folder's name during its removal, so that no other job treats it as a build."""
_LOCK = ".lock"


@dataclass(frozen=True, slots=True)
class ExpiredEntry:
    """A folder or a session that may be removed."""

    path: Path
    size: int
    """Total size of its files in bytes."""


def find_expired_builds(archive: Path, before: datetime) -> Iterator[ExpiredEntry]:
    """Yield the builds of an archive, ``JOB/NUMBER``, that were last changed before a point in time.

    Folders left over by a removal that was killed are included, whatever their age.

    :raises ArchiveError: if a folder cannot be read.
    """
    for job in _folders(archive):
        folders = _folders(job)
        builds = sorted((each for each in folders if each.name.isdecimal()), key=lambda each: int(each.name))
        left = (each for each in folders if each.name.removesuffix(_PRUNED).removeprefix(".").isdecimal())
        yield from (_measure_folder(each) for each in left if each not in builds)
        for build in builds[:-1]:
            yield from _find_expired(build, before)


def find_expired_folders(
    parent: Path, before: datetime, *, except_for: Collection[str]
) -> Iterator[ExpiredEntry]:
    """Yield the folders in a folder that were last changed before a point in time.

    :param except_for: names of folders that are in use.
    :raises ArchiveError: if a folder cannot be read.
    """
    for folder in _folders(parent):
        if folder.name.endswith(_PRUNED):
            yield _measure_folder(folder)
        elif folder.name not in except_for:
            yield from _find_expired(folder, before)


def find_expired_sessions(folder: Path, before: datetime) -> Iterator[ExpiredEntry]:
    """Yield the sessions of bisections that were last changed before a point in time.

    :raises ArchiveError: if the folder cannot be read.
    """
    for path in sorted(folder.glob("*.jsonl")):
        lock = path.with_suffix(_LOCK)
        try:
            status = path.lstat()
            is_in_use = path.is_symlink() or (lock.is_file() and _is_locked(lock))
        except FileNotFoundError:
            # The bisection has just ended.
            continue
        if status.st_mtime < before.timestamp() and not is_in_use:
            yield ExpiredEntry(path, status.st_size)


def remove(expired: ExpiredEntry) -> None:
    """Remove a folder or a session, but not a session that a job has started to use meanwhile.

    :raises ArchiveError: if it cannot be removed.
    """
    path = expired.path
    try:
        if path.is_dir():
            _remove_folder(path)
        else:
            _remove_session(path)
    except OSError as error:
        raise ArchiveError(f"{path}: cannot be removed: {error.strerror}") from error


def _remove_folder(path: Path) -> None:
    if not path.name.endswith(_PRUNED):
        path = path.rename(path.with_name(f".{path.name}{_PRUNED}"))
    shutil.rmtree(path)


def _remove_session(path: Path) -> None:
    lock_file = path.with_suffix(_LOCK)
    lock = acquire_lock(lock_file, wait=False)
    if lock is None:
        return
    try:
        path.unlink(missing_ok=True)
        lock_file.unlink(missing_ok=True)
    finally:
        os.close(lock)


def _folders(parent: Path) -> list[Path]:
    try:
        with os.scandir(parent) as entries:
            return sorted(Path(each.path) for each in entries if each.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ArchiveError(f"{parent}: cannot be read: {error.strerror}") from error


def _find_expired(folder: Path, before: datetime) -> Iterator[ExpiredEntry]:
    """Yield a folder if it may be removed."""
    size = 0
    for path in (folder, *_content(folder)):
        try:
            status = path.lstat()
            may_be_locked = path == folder or path.name.endswith(".unfinished")
            is_in_use = path.name == UNSTORED_MARK or (may_be_locked and _is_locked(path))
        except FileNotFoundError:
            # A job is changing the folder.
            return
        if is_in_use or status.st_mtime >= before.timestamp():
            return
        size += status.st_size if not path.is_dir() else 0
    yield ExpiredEntry(folder, size)


def _measure_folder(folder: Path) -> ExpiredEntry:
    return ExpiredEntry(folder, sum(path.lstat().st_size for path in _content(folder) if path.is_file()))


def _content(folder: Path) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        raise ArchiveError(f"{error.filename}: cannot be read: {error.strerror}") from error

    for parent, folders, files in os.walk(folder, onerror=refuse):
        yield from (Path(parent, name) for name in (*folders, *files))


def _is_locked(path: Path) -> bool:
    """Return whether a running process has locked a file or a folder."""
    if path.is_symlink():
        return False
    try:
        with try_lock(path) as lock:
            return lock is None
    except PermissionError as error:
        raise ArchiveError(f"{path}: cannot be read: {error.strerror}") from error
