"""Runners, which start and end jobs: on this machine or in Jenkins.

The local runner is for teams without Jenkins: it runs one job at a time on each testbed. Each job is run by a
:mod:`~perftrend.listener.supervisor` in its own folder, which is named after the request. If the listener is
killed, the supervisor continues, and the next listener waits for it. If the supervisor was killed as well,
the job is run again.

A runner records in the store when a job began and how long it took.

The runner on Jenkins starts the same jobs with the same parameters as the Gerrit Trigger plugin.
"""

from __future__ import annotations

import base64
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from http import HTTPStatus
from pathlib import Path
from typing import Protocol

from perftrend.clients.jenkins import Jenkins, JenkinsBuild, QueueItem, RefusedError
from perftrend.errors import ServiceError, UsageError, explain
from perftrend.listener import supervisor
from perftrend.store.requests import Request, Requests, RequestState

LOG = logging.getLogger(__name__)

KEY = "GERRIT_EVENT_HASH"
"""The parameter that identifies a request."""

REPORT = "report"
"""Folder of the job's report in the folder of a request."""
_FAREWELL_S = 60.0
_MOST_TRIES = 3
_OF_A_BUILD = ("BUILD_NUMBER", "BUILD_URL", "JOB_NAME")
"""Environment variables of a Jenkins build that started the listener; they are not passed to jobs."""

Command = Callable[[Request], Sequence[str]]

_JOB_NAMES = {
    "analysis": "perftrend-analysis-{}",
    "bisect": "perftrend-bisect-{}",
    "perftest": "perftrend-perftest-{}",
    "trending": "perftrend-trending-nightly-{}",
}
_CLOCKS = timedelta(hours=1)
"""Tolerated difference between the clocks of Jenkins and this machine."""
_LOOK_EVERY_S = 20.0
"""Interval between queries which builds have begun and ended."""
_UNSEEN = timedelta(seconds=20)
"""How long a build that was requested may be neither in the queue nor among the builds."""
_REFUSALS = (HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)


class RequestRejectedError(ServiceError):
    """The runner rejects this request permanently."""


class CancelResult(Enum):
    """What has become of a job that is to be ended."""

    PENDING = auto()
    """It is ending, or it cannot be seen yet; look again."""
    NEVER_BEGAN = auto()
    ABORTED = auto()
    HAD_ENDED = auto()
    """It had ended by itself."""


class Runner(Protocol):
    """Starts jobs, each of them once."""

    begun: RequestState
    """The state of a request that the runner has accepted."""

    def begin(self, request: Request, *, is_new: bool) -> str:
        """Accept a claimed request, and return the address of its build; empty if that is not known yet.

        :param is_new: False if it may already have been accepted, before the listener was killed or by a
            request whose response was lost; it is then not started twice.
        :raises RequestRejectedError: if it can never be accepted.
        :raises ServiceError: if it cannot be accepted now; try again later.
        """
        ...

    def link(self, request: Request) -> str:
        """Return the address of the build of a request; empty if there is none yet."""
        ...

    def page(self, request: Request) -> str:
        """Return the address of the page on which the build will appear; empty if there is none."""
        ...

    def cancel(self, request: Request) -> CancelResult:
        """End the job of a request whose state is ``cancelling``; call this until the result is final.

        :raises RequestRejectedError: if it can never be ended here.
        :raises ServiceError: if it cannot be ended now; try again later.
        """
        ...

    def tend(self) -> bool:
        """Update the state of the jobs; return whether to call this again soon."""
        ...

    def close(self) -> None:
        """Terminate the jobs that this process runs; the next listener starts them again."""
        ...


def parameters(request: Request) -> Mapping[str, str]:
    """Return the parameters of a build, under the names of Jenkins's Gerrit Trigger plugin.

    The comment text is only the line of the request, so that each job of a comment with several requests
    receives its own.
    """
    return {
        "GERRIT_EVENT_COMMENT_TEXT": base64.b64encode(request.line.encode()).decode(),
        "GERRIT_PROJECT": request.project,
        "GERRIT_BRANCH": request.branch,
        "GERRIT_REFSPEC": request.ref,
        "GERRIT_CHANGE_NUMBER": _number(request.change),
        "GERRIT_PATCHSET_NUMBER": _number(request.patch_set),
        "GERRIT_PATCHSET_REVISION": request.revision,
        KEY: request.key,
    }


def _number(number: int) -> str:
    """Return a number as text; empty if it is 0, as in a request of the dashboard, which is on no change."""
    return str(number) if number else ""


def job_command(request: Request) -> Sequence[str]:
    """Return the command that runs the job of a request."""
    return [sys.executable, "-P", "-m", f"perftrend.cli.{request.job}"]


@dataclass(frozen=True, slots=True)
class _LocalProcess:
    request: Request
    process: subprocess.Popen[bytes] | None
    """None: an earlier listener started the process."""


class LocalRunner:
    """Runs jobs as processes.

    :param requests: the requests in the store.
    :param archive: folder in which a folder for each request is created.
    :param settings: environment variables that pass the listener's settings to the jobs.
    :param command: returns the command that runs the job of a request.
    """

    begun = RequestState.WAITING

    def __init__(
        self,
        requests: Requests,
        *,
        archive: Path,
        settings: Mapping[str, str],
        command: Command = job_command,
    ) -> None:
        self._requests = requests
        self._folder = archive / supervisor.FOLDER
        self._settings = dict(settings)
        self._command = command
        self._running: dict[str, _LocalProcess] = {}
        self._tries: dict[str, int] = {}
        self._problems: dict[str, str] = {}

    def begin(self, request: Request, *, is_new: bool) -> str:  # noqa: ARG002 - a request is run once in any case
        """Accept a request; :meth:`tend` runs it when its turn comes."""
        return ""

    def link(self, request: Request) -> str:  # noqa: ARG002 - part of the protocol
        """Return an empty string; local jobs have no page."""
        return ""

    def page(self, request: Request) -> str:  # noqa: ARG002 - part of the protocol
        """Return an empty string; local jobs have no page."""
        return ""

    def tend(self) -> bool:
        """Record the jobs that have ended, and start the next job on each free testbed."""
        for testbed, running in list(self._running.items()):
            if self._has_ended(running):
                del self._running[testbed]
        for request in self._in_turn():
            if request.testbed in self._running:
                continue
            if request.state is RequestState.RUNNING:
                self._try(self._resume, request)
            else:
                now = datetime.now(UTC)
                if self._requests.change(request, state=RequestState.RUNNING, began=now):
                    self._try(self._start, replace(request, state=RequestState.RUNNING, began=now))
        return bool(self._running)

    def cancel(self, request: Request) -> CancelResult:
        """End a job: it gets SIGTERM, and cleans up."""
        folder = self._place(request)
        if request.began is None:
            return CancelResult.NEVER_BEGAN
        is_running = any(request.key == each.request.key for each in self._running.values())
        if is_running or (folder.is_dir() and supervisor.is_held(folder)):
            if not supervisor.is_cancelled(folder):
                supervisor.cancel(folder)
            return CancelResult.PENDING
        # The supervisor writes it only for a job that ended by itself.
        code = supervisor.exit_code(folder)
        self._requests.change(request, exit_code=code, duration_s=_seconds_since(request.began))
        return CancelResult.ABORTED if code is None else CancelResult.HAD_ENDED

    def _try(self, start: Callable[[Request], _LocalProcess], request: Request) -> None:
        """Start a job; if this machine cannot, such as with a full disk, it is tried again later."""
        try:
            self._running[request.testbed] = start(request)
        except OSError as error:
            problem = f"{request.line}: cannot be started now: {explain(error)}"
            if problem != self._problems.get(request.key):
                LOG.warning("%s", problem)
            self._problems[request.key] = problem

    def close(self) -> None:
        """Terminate the jobs of this process and wait for them; their requests remain ``running``."""
        processes = [each.process for each in self._running.values() if each.process]
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_FAREWELL_S)
        self._running.clear()

    def _start(self, request: Request) -> _LocalProcess:
        folder = self._place(request)
        folder.mkdir(parents=True, exist_ok=True)
        LOG.info("%s: running; see %s", request.line, folder / supervisor.CONSOLE)
        environment = {name: value for name, value in os.environ.items() if name not in _OF_A_BUILD}
        # Jobs on several testbeds run concurrently, and each job would replace the report of another.
        own = {"PERFTREND_TESTBED": request.testbed, "PERFTREND_REPORT": str(folder / REPORT)}
        environment |= {**self._settings, **own, **parameters(request)}
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", supervisor.__name__, str(folder), *self._command(request)],
            stdin=subprocess.DEVNULL, env=environment, start_new_session=True,
        )  # fmt: skip
        return _LocalProcess(request, process)

    def _in_turn(self) -> list[Request]:
        """Return the running requests, then the waiting ones."""
        return [
            *self._requests.in_states(RequestState.RUNNING),
            *self._requests.in_states(RequestState.WAITING),
        ]

    def _resume(self, request: Request) -> _LocalProcess:
        """Return a job that an earlier listener started; start it again if it was killed."""
        folder = self._place(request)
        if folder.is_dir() and (supervisor.is_held(folder) or supervisor.exit_code(folder) is not None):
            return _LocalProcess(request, None)
        return self._start(request)

    def _has_ended(self, running: _LocalProcess) -> bool:
        """Return whether a job has ended, and record its exit code."""
        request, folder = running.request, self._place(running.request)
        if (running.process and running.process.poll() is None) or supervisor.is_held(folder):
            return False
        code = supervisor.exit_code(folder)
        if supervisor.is_cancelled(folder):
            LOG.info("%s: was cancelled", request.line)
            return True
        self._tries[request.key] = self._tries.get(request.key, 0) + 1
        if code is None and self._tries[request.key] < _MOST_TRIES:
            LOG.warning("%s: was killed, and is run again", request.line)
            return True
        duration_s = _seconds_since(request.began) if request.began else None
        self._requests.change(request, state=RequestState.ENDED, exit_code=code, duration_s=duration_s)
        if code is None:
            LOG.error("%s: killed %d times; given up", request.line, _MOST_TRIES)
        else:
            LOG.info("%s: ended with exit code %d", request.line, code)
        return True

    def _place(self, request: Request) -> Path:
        return (self._folder / request.key).absolute()


def _seconds_since(moment: datetime) -> float:
    return (datetime.now(UTC) - moment).total_seconds()


def job_name(request: Request) -> str:
    """Return the name of the job that a request starts."""
    return _JOB_NAMES[request.job].format(request.testbed)


@contextmanager
def _rejected_if_refused() -> Iterator[None]:
    """Reject the request if Jenkins refuses what it needs; any other failure may be temporary."""
    try:
        yield
    except (UsageError, RefusedError) as error:
        if isinstance(error, RefusedError) and error.status not in _REFUSALS:
            raise
        raise RequestRejectedError(str(error)) from None


class JenkinsRunner:
    """Starts builds, and finds them by the key of their request."""

    begun = RequestState.STARTED

    def __init__(self, jenkins: Jenkins, requests: Requests, *, look_every_s: float = _LOOK_EVERY_S) -> None:
        self._jenkins, self._requests = jenkins, requests
        self._look_every_s = look_every_s
        self._looked_at: float | None = None
        self._problem = ""

    def begin(self, request: Request, *, is_new: bool) -> str:
        """Start a build, unless a build of the request exists; it is only searched if ``is_new`` is False."""
        with _rejected_if_refused():
            if not is_new and (found := self._find_builds(request)):
                return _address(found)
            self._jenkins.start(job_name(request), parameters(request))
        return ""

    def link(self, request: Request) -> str:
        """Return the address of the build; empty while it waits in the queue."""
        return _address(self._find_builds(request))

    def page(self, request: Request) -> str:
        """Return the address of the job."""
        return f"{self._jenkins.url}/job/{job_name(request)}/"

    def cancel(self, request: Request) -> CancelResult:
        """Remove the build of a request from the queue, or abort it."""
        if request.decided is None:
            return CancelResult.NEVER_BEGAN
        with _rejected_if_refused():
            return self._cancel(request, self._find_builds(request))

    def _cancel(self, request: Request, found: Sequence[QueueItem | JenkinsBuild]) -> CancelResult:
        builds = [each for each in found if isinstance(each, JenkinsBuild)]
        queued = [each for each in found if isinstance(each, QueueItem)]
        for item in queued:
            self._jenkins.cancel(item)
        for build in builds:
            if not build.is_finished:
                self._jenkins.abort(build)
        if builds:
            newest = builds[0]
            took_s = newest.duration_s or (datetime.now(UTC) - newest.started).total_seconds()
            self._requests.change(request, began=newest.started, duration_s=took_s)
            is_aborted = not newest.is_finished or newest.result == "ABORTED"
            return CancelResult.ABORTED if is_aborted else CancelResult.HAD_ENDED
        # Look again: an item may have become a build just before it was to be removed, and a build that was
        # just requested is not in the queue of every server.
        is_recent = request.decided is not None and datetime.now(UTC) - request.decided < _UNSEEN
        return CancelResult.PENDING if queued or is_recent else CancelResult.NEVER_BEGAN

    def tend(self) -> bool:
        """Record which builds have begun and ended; Jenkins is queried at most once per interval."""
        now = time.monotonic()
        if self._looked_at is None or now - self._looked_at >= self._look_every_s:
            self._looked_at = now
            self._requests.end_old(datetime.now(UTC))
            by_job: dict[str, list[Request]] = {}
            for request in self._requests.in_states(RequestState.STARTED):
                by_job.setdefault(job_name(request), []).append(request)
            try:
                for job, started in by_job.items():
                    self._record(job, started)
            except (ServiceError, UsageError) as error:
                if str(error) != self._problem:
                    LOG.warning("the builds cannot be followed: %s", error)
                self._problem = str(error)
            else:
                self._problem = ""
        return False

    def _record(self, job: str, started: Sequence[Request]) -> None:
        """Record which builds have begun and ended. One that Jenkins no longer has counts as ended."""
        now = datetime.now(UTC)
        decided = {each.key: each.decided or each.asked for each in started}
        waiting = {each.parameters.get(KEY, "").strip() for each in self._jenkins.queue(job)}
        builds = self._jenkins.builds(job, since=min(decided.values()) - _CLOCKS)
        found = {build.parameters.get(KEY, "").strip(): build for build in builds}
        for request in started:
            build = found.get(request.key)
            if build and build.is_finished:
                self._requests.change(
                    request, state=RequestState.ENDED, began=build.started, duration_s=build.duration_s
                )
            elif build and request.began is None:
                self._requests.change(request, began=build.started, link=request.link or build.url)
            elif not build and request.key not in waiting and now - decided[request.key] >= _CLOCKS:
                self._requests.change(request, state=RequestState.ENDED)

    def close(self) -> None:
        """Do nothing; builds continue on Jenkins."""

    def _find_builds(self, request: Request) -> Sequence[QueueItem | JenkinsBuild]:
        since = (request.decided or datetime.now(UTC)) - _CLOCKS
        return self._jenkins.find(job_name(request), KEY, request.key, since=since)


def _address(found: Sequence[QueueItem | JenkinsBuild]) -> str:
    return next((each.url for each in found if isinstance(each, JenkinsBuild)), "")
