"""Temporary folders, which are removed after use in every case.

::

    1234567890ab-x7f3q2/        a folder
    1234567890ab-x7f3q2.lock    locked while the folder is in use: a folder with an unlocked file is left over
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from perftrend.files import acquire_lock, remove_tree


def _do_nothing(_: Path) -> None:
    """Do nothing."""


@contextmanager
def own(place: Path, prefix: str, *, removed: Callable[[Path], None] = _do_nothing) -> Generator[Path]:
    """Provide the path of a private folder within ``place``, which does not exist yet.

    The folder is removed afterwards. Folders left over by killed processes are removed first. Other users
    of this machine have no access to ``place``.

    :param prefix: of its name.
    :param removed: called with each folder that was removed.
    """
    place.mkdir(parents=True, exist_ok=True)
    # What is written there may be a set-user-ID program that other users of this machine must not run.
    place.chmod(0o700)
    for left in place.glob("*.lock"):
        holding = acquire_lock(left, wait=False)
        if holding is not None:
            _remove(left, holding, removed)
    descriptor, name = tempfile.mkstemp(prefix=prefix, suffix=".lock", dir=place)
    os.close(descriptor)
    lock = Path(name)
    holding = acquire_lock(lock)
    assert holding is not None  # noqa: S101 - the call waited for it
    try:
        yield lock.with_suffix("")
    finally:
        _remove(lock, holding, removed)


def _remove(lock: Path, holding: int, removed: Callable[[Path], None]) -> None:
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
