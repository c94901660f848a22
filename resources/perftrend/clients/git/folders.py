"""Folders for a while, which are removed when they are no longer needed, whatever happens.

::

    1234567890ab-x7f3q2/        a folder
    1234567890ab-x7f3q2.lock    held while it is used: one that nobody holds is left over
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from perftrend.clients.git.locking import taken


def _nothing(_: Path) -> None:
    """Do nothing more."""


@contextmanager
def own(place: Path, prefix: str, *, removed: Callable[[Path], None] = _nothing) -> Generator[Path]:
    """Give the path of a folder of one's own within ``place``, which is not yet there.

    It is removed afterwards, and so is before what processes left behind that were killed.

    :param prefix: what its name begins with.
    :param removed: is told of each folder that was removed.
    """
    place.mkdir(parents=True, exist_ok=True)
    for left in place.glob("*.lock"):
        holding = taken(left, wait=False)
        if holding is not None:
            _remove(left, holding, removed)
    descriptor, name = tempfile.mkstemp(prefix=prefix, suffix=".lock", dir=place)
    os.close(descriptor)
    lock = Path(name)
    holding = taken(lock)
    assert holding is not None  # noqa: S101 - it was waited for
    try:
        yield lock.with_suffix("")
    finally:
        _remove(lock, holding, removed)


def _remove(lock: Path, holding: int, removed: Callable[[Path], None]) -> None:
    path = lock.with_suffix("")
    try:
        _end_processes_in(path)
        shutil.rmtree(path, ignore_errors=True)
        removed(path)
        if not path.exists():
            lock.unlink(missing_ok=True)
    finally:
        os.close(holding)


def _end_processes_in(path: Path) -> None:
    """End what still works in a folder, such as the compilers of a build whose starter was killed.

    A person's shell, which has a terminal, is left alone.
    """
    for process in Path("/proc").glob("[0-9]*"):
        # It may end while it is looked at, or be another user's.
        with suppress(OSError):
            place = (process / "cwd").readlink()
            if place.is_relative_to(path) and not _has_terminal(process):
                os.kill(int(process.name), signal.SIGKILL)


def _has_terminal(process: Path) -> bool:
    """Return whether a process has a controlling terminal: tty_nr of proc_pid_stat(5) is not 0."""
    after_name = (process / "stat").read_text(errors="replace").rpartition(")")[2]
    return after_name.split()[4] != "0"
