"""The runner on Jenkins: it starts the same jobs with the same parameters as the Gerrit Trigger plugin."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

from perftrend.clients.jenkins import Jenkins, JenkinsBuild, QueueItem, RefusedError
from perftrend.errors import ServiceError, UsageError
from perftrend.listener.runner import KEY, CancelResult, RequestRejectedError, parameters
from perftrend.store.requests import Request, Requests, RequestState

LOG = logging.getLogger(__name__)

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
