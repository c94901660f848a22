"""Supervisor of one job, which records its exit code even if the process that started it is gone.

``python -m perftrend.listener.supervisor FOLDER PROGRAM [ARGUMENT…]`` writes the output of the job to
``console.log`` in the folder and, after the job has ended by itself, its exit code to ``exit_code``. While it
runs, it holds a lock on the folder. On SIGTERM or SIGINT it terminates the job. It writes no exit code then,
nor if another process kills the job, which has to be run again. :func:`cancel` makes it terminate the job,
which is then not run again.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

from perftrend.files import try_lock, write_whole

FOLDER = "requests"
"""Folder in the archive that contains a folder for each request."""
CONSOLE = "console.log"
EXIT_CODE = "exit_code"
_CANCELLED = "cancelled"
_IN_USE = 75
_PATIENCE_S = 1.0
_LOOK_EVERY_S = 0.01
_CHECK_EVERY_S = 0.2
"""Interval between checks whether the job was cancelled."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    folder, *command = sys.argv[1:] if argv is None else argv
    # Wait briefly: is_held() acquires the lock for a moment to test it.
    with lock_folder(Path(folder), wait_s=_PATIENCE_S) as lock:
        return _IN_USE if lock is None else _run(Path(folder), command, lock)


def _run(folder: Path, command: Sequence[str], lock: int) -> int:
    signals: list[int] = []
    job: subprocess.Popen[bytes] | None = None

    def end(number: int, _: FrameType | None) -> None:
        signals.append(number)
        if job:
            job.send_signal(signal.SIGTERM)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    with (folder / CONSOLE).open("ab") as console:
        # The job inherits the lock: if only this process dies, the job is not run a second time.
        job = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=console, stderr=console, pass_fds=(lock,)
        )
    if signals:
        job.send_signal(signal.SIGTERM)
    code = None
    while code is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = job.wait(_CHECK_EVERY_S)
        if code is None and not signals and is_cancelled(folder):
            end(signal.SIGTERM, None)
    # A job that was killed, such as for its memory, has to be run again.
    if not signals and code >= 0:
        write_whole(folder / EXIT_CODE, f"{code}\n")
    return code


@contextlib.contextmanager
def lock_folder(folder: Path, *, wait_s: float = 0.0) -> Iterator[int | None]:
    """Lock a folder, and yield the descriptor that holds the lock; None if another process holds it.

    :param wait_s: maximum time to wait for the lock.
    """
    end = time.monotonic() + wait_s
    while True:
        with try_lock(folder) as lock:
            if lock is not None or time.monotonic() >= end:
                yield lock
                return
        time.sleep(_LOOK_EVERY_S)


def is_held(folder: Path) -> bool:
    """Return whether a supervisor or its job is running."""
    with lock_folder(folder) as lock:
        return lock is None


def cancel(folder: Path) -> None:
    """Let the supervisor of a folder terminate its job, whichever process started it."""
    write_whole(folder / _CANCELLED, "")


def is_cancelled(folder: Path) -> bool:
    """Return whether the job of a folder was cancelled."""
    return (folder / _CANCELLED).exists()


def exit_code(folder: Path) -> int | None:
    """Return the exit code of the job of a folder; None if it has not ended by itself."""
    try:
        return int((folder / EXIT_CODE).read_text())
    except (OSError, ValueError):
        return None


if __name__ == "__main__":
    sys.exit(main())
