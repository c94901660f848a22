"""Runs one job and keeps how it ended, whatever becomes of who started it.

``python -m perftrend.listener.keeper FOLDER PROGRAM [ARGUMENT…]`` leaves in the folder what the job says
(``console.log``) and, once it has ended by itself, its exit code (``exit_code``). While it lives it holds a
lock on the folder. Told to end, it ends the job and leaves no exit code: the job has to be run again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

CONSOLE = "console.log"
EXIT_CODE = "exit_code"
_IN_USE = 75
_PATIENCE_S = 1.0
_LOOK_EVERY_S = 0.01


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    folder, *command = sys.argv[1:] if argv is None else argv
    # Whoever only looks whether it is locked, locks it for a moment.
    with locked(Path(folder), wait_s=_PATIENCE_S) as lock:
        return _IN_USE if lock is None else _run(Path(folder), command, lock)


def _run(folder: Path, command: Sequence[str], lock: int) -> int:
    told: list[int] = []
    job: subprocess.Popen[bytes] | None = None

    def end(number: int, _: FrameType | None) -> None:
        told.append(number)
        if job:
            job.send_signal(signal.SIGTERM)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    with (folder / CONSOLE).open("ab") as console:
        # The job holds the lock, too: should this process die alone, nobody runs the job a second time.
        job = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=console, stderr=console, pass_fds=(lock,)
        )
    if told:
        job.send_signal(signal.SIGTERM)
    code = job.wait()
    if not told:
        unfinished = folder / f".{EXIT_CODE}"
        unfinished.write_text(f"{code}\n")
        unfinished.rename(folder / EXIT_CODE)
    return code


@contextlib.contextmanager
def locked(folder: Path, *, wait_s: float = 0.0) -> Iterator[int | None]:
    """Lock a folder, and give the descriptor that holds the lock; None: another process has it, and lives.

    :param wait_s: how long to wait for it.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    end = time.monotonic() + wait_s
    try:
        while not (is_ours := _try(descriptor)) and time.monotonic() < end:
            time.sleep(_LOOK_EVERY_S)
        yield descriptor if is_ours else None
    finally:
        os.close(descriptor)


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_held(folder: Path) -> bool:
    """Tell whether a keeper or its job lives."""
    with locked(folder) as lock:
        return lock is None


def exit_code(folder: Path) -> int | None:
    """Return how the job of a folder ended; None: it has not, by itself."""
    try:
        return int((folder / EXIT_CODE).read_text())
    except (OSError, ValueError):
        return None


if __name__ == "__main__":
    sys.exit(main())
