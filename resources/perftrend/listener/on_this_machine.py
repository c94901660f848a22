"""This machine runs the jobs itself: one after the other on each testbed, for teams without Jenkins.

Each job is run by a :mod:`~perftrend.listener.keeper` in a folder of its own, named after the request. When
the listener is killed the keeper goes on, and the next listener waits for it. Where it died, too, the job is
run again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from perftrend.listener import keeper
from perftrend.listener.running import parameters
from perftrend.store.requests import Request, Requests, State

FOLDER = "requests"
"""Of the archive: where each request has its folder."""
REPORT = "report"
"""Of that folder: what its job reports."""
_FAREWELL_S = 60.0
_MOST_TRIES = 3
_OF_A_BUILD = ("BUILD_NUMBER", "BUILD_URL", "JOB_NAME")
"""What a Jenkins that started the listener says of that build."""

Command = Callable[[Request], Sequence[str]]


def job_command(request: Request) -> Sequence[str]:
    """Return what runs the job of a request."""
    return [sys.executable, "-m", f"jobs.{request.job}"]


@dataclass(frozen=True, slots=True)
class _Running:
    request: Request
    process: subprocess.Popen[bytes] | None
    """None: another listener started it, and it lives on."""


class OnThisMachine:
    """Runs jobs as processes.

    :param requests: the store's.
    :param archive: receives a folder for each request.
    :param settings: environment variables that give the jobs the listener's own settings.
    :param command: what runs the job of a request.
    :param say: is told in one line when a job begins and how it ended.
    """

    begun = State.WAITING

    def __init__(
        self,
        requests: Requests,
        *,
        archive: Path,
        settings: Mapping[str, str],
        command: Command = job_command,
        say: Callable[[str], None],
    ) -> None:
        self._requests = requests
        self._folder = archive / FOLDER
        self._settings = dict(settings)
        self._command = command
        self._say = say
        self._running: dict[str, _Running] = {}
        self._tries: dict[str, int] = {}

    def begin(self, request: Request, *, is_new: bool) -> str:  # noqa: ARG002 - what waits is run once anyhow
        """Take a request; :meth:`tend` runs it when its turn comes."""
        return ""

    def link(self, request: Request) -> str:  # noqa: ARG002 - as any runner
        """There is no page of it."""
        return ""

    def page(self, request: Request) -> str:  # noqa: ARG002 - as any runner
        """There is no page of it."""
        return ""

    def tend(self) -> bool:
        """Note what has ended, and run what is next on each testbed that is free."""
        for testbed, running in list(self._running.items()):
            if self._has_ended(running):
                del self._running[testbed]
        for request in self._in_turn():
            if request.testbed in self._running:
                continue
            if request.state is State.RUNNING:
                self._running[request.testbed] = self._resumed(request)
            elif self._requests.change(request, state=State.RUNNING):
                self._running[request.testbed] = self._started(replace(request, state=State.RUNNING))
        return bool(self._running)

    def close(self) -> None:
        """End the jobs that this process started, and wait for them; their requests stay under way."""
        processes = [each.process for each in self._running.values() if each.process]
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_FAREWELL_S)
        self._running.clear()

    def _started(self, request: Request) -> _Running:
        folder = self._place(request)
        folder.mkdir(parents=True, exist_ok=True)
        self._say(f"{request.line}: begins; see {folder / keeper.CONSOLE}")
        environment = {name: value for name, value in os.environ.items() if name not in _OF_A_BUILD}
        # Several testbeds measure at the same time, and a report is replaced whole by the next one.
        own = {"PERFTREND_TESTBED": request.testbed, "PERFTREND_REPORT": str(folder / REPORT)}
        environment |= {**self._settings, **own, **parameters(request)}
        process = subprocess.Popen(
            [sys.executable, "-m", keeper.__name__, str(folder), *self._command(request)],
            stdin=subprocess.DEVNULL, env=environment, start_new_session=True,
        )  # fmt: skip
        return _Running(request, process)

    def _in_turn(self) -> list[Request]:
        """Return what is under way, and then what waits."""
        return [*self._requests.in_states(State.RUNNING), *self._requests.in_states(State.WAITING)]

    def _resumed(self, request: Request) -> _Running:
        """Return what an earlier listener had begun: as it still runs, or begun again."""
        folder = self._place(request)
        if folder.is_dir() and (keeper.is_held(folder) or keeper.exit_code(folder) is not None):
            return _Running(request, None)
        return self._started(request)

    def _has_ended(self, running: _Running) -> bool:
        """Look whether a job has ended, and note how."""
        request, folder = running.request, self._place(running.request)
        if (running.process and running.process.poll() is None) or keeper.is_held(folder):
            return False
        code = keeper.exit_code(folder)
        self._tries[request.key] = self._tries.get(request.key, 0) + 1
        if code is None and self._tries[request.key] < _MOST_TRIES:
            self._say(f"{request.line}: was ended by force, and is run again")
            return True
        self._requests.change(request, state=State.ENDED, exit_code=code)
        how = f"with exit code {code}" if code is not None else f"by force, {_MOST_TRIES} times; given up"
        self._say(f"{request.line}: ended {how}")
        return True

    def _place(self, request: Request) -> Path:
        return (self._folder / request.key).absolute()
