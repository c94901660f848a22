"""Runner on Jenkins: starts the same jobs with the same parameters as its Gerrit Trigger plugin."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

from perftrend.clients.jenkins import Jenkins, JenkinsBuild, QueueItem, RefusedError
from perftrend.errors import UsageError
from perftrend.listener.runner import KEY, RequestRejectedError, parameters
from perftrend.store.requests import Request, RequestState

_NAMES = {
    "analysis": "perftrend-analysis-{}",
    "bisect": "perftrend-bisect-{}",
    "perftest": "perftrend-perftest-{}",
    "trending": "perftrend-trending-nightly-{}",
}
_CLOCKS = timedelta(hours=1)
"""Tolerated difference between the clocks of Jenkins and this machine."""
_REFUSALS = (HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)


def job_name(request: Request) -> str:
    """Return the name of the job that a request starts."""
    return _NAMES[request.job].format(request.testbed)


class JenkinsRunner:
    """Starts builds, and finds them by the key of their request."""

    begun = RequestState.STARTED

    def __init__(self, jenkins: Jenkins) -> None:
        self._jenkins = jenkins

    def begin(self, request: Request, *, is_new: bool) -> str:
        """Start a build, unless a build of the request exists; it is only searched if ``is_new`` is False."""
        try:
            if not is_new and (found := self._find_builds(request)):
                return _address(found)
            self._jenkins.start(job_name(request), parameters(request))
        except UsageError as error:
            raise RequestRejectedError(str(error)) from None
        except RefusedError as error:
            if error.status not in _REFUSALS:
                raise
            raise RequestRejectedError(str(error)) from None
        return ""

    def link(self, request: Request) -> str:
        """Return the address of the build; empty while it waits in the queue."""
        return _address(self._find_builds(request))

    def page(self, request: Request) -> str:
        """Return the address of the job."""
        return f"{self._jenkins.url}/job/{job_name(request)}/"

    def tend(self) -> bool:
        """Do nothing; Jenkins manages its builds itself."""
        return False

    def close(self) -> None:
        """Do nothing; builds continue on Jenkins."""

    def _find_builds(self, request: Request) -> Sequence[QueueItem | JenkinsBuild]:
        since = (request.decided or datetime.now(UTC)) - _CLOCKS
        return self._jenkins.find(job_name(request), KEY, request.key, since=since)


def _address(found: Sequence[QueueItem | JenkinsBuild]) -> str:
    return next((each.url for each in found if isinstance(each, JenkinsBuild)), "")
