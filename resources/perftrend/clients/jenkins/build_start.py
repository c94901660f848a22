"""Starting a build, and finding it again: by its queue item, or by number and parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import takewhile
from typing import Any

from perftrend.clients.jenkins.api import Api
from perftrend.clients.jenkins.build_pages import newest_first
from perftrend.clients.jenkins.builds import has_parameters
from perftrend.clients.jenkins.paths import job_path
from perftrend.clients.web.errors import RefusedError, UnavailableError, UnreachedError
from perftrend.errors import ServiceError, UsageError, nearest


@dataclass(frozen=True, slots=True)
class QueuedBuild:
    """A requested build, with the data to find it again."""

    job: str
    after: int
    """The newest build number at the time of the request."""
    queue_item: int | None
    """None if the server does not report it: the build is then found by its parameters."""
    parameters: Mapping[str, str] = field(default_factory=dict, hash=False)


def start(api: Api, job: str, parameters: Mapping[str, str]) -> QueuedBuild:
    """Request a build once. See :meth:`Jenkins.start`."""
    fields = api.job(job, "buildable,nextBuildNumber,property[parameterDefinitions[name]]")
    known, following = _parameter_names(fields), fields.get("nextBuildNumber")
    for name in parameters:
        if name not in known:
            raise UsageError(f"job {job!r} has no parameter {name!r}{nearest(name, known)}")
    if fields.get("buildable") is False:
        raise UsageError(f"job {job!r} is disabled; enable it first")
    if not isinstance(following, int):
        raise ServiceError(f"{api.url(job)}: the response is not a buildable job; is jenkins.url right?")
    path = job_path(job)
    try:
        status, location = api.transport.post(
            f"{path}/{'buildWithParameters' if known else 'build'}", parameters
        )
    except UnreachedError:
        raise
    except UnavailableError as error:
        raise ServiceError(f"{error}; it may have started anyway, see {api.url(job)}/") from None
    item = re.search(r"/queue/item/([0-9]{1,18})/?$", location)
    if status >= HTTPStatus.MULTIPLE_CHOICES and not item and not location.endswith(f"/{path}/"):
        raise ServiceError(
            f"POST {api.url(job)}: is redirected instead of started; is a login page in between? "
            "check jenkins.url, including https://"
        )
    return QueuedBuild(job, following - 1, int(item[1]) if item else None, dict(parameters))


def number(api: Api, started: QueuedBuild) -> int | None:
    """Return the number of a build; None while it is in the queue.

    :raises ServiceError: if it was removed from the queue.
    """
    item = _queue_item(api, started.queue_item)
    if item is None:
        return _oldest_alike(api, started)
    if item.get("cancelled"):
        raise ServiceError(f"job {started.job!r} was removed from the queue; start it again")
    build_number = (item.get("executable") or {}).get("number")
    return build_number if isinstance(build_number, int) else None


def _queue_item(api: Api, number: int | None) -> dict[str, Any] | None:
    """Return the JSON of a queue item; None if there is no item, or the server has discarded it."""
    if number is None:
        return None
    try:
        return api.transport.json(f"queue/item/{number}", "cancelled,executable[number]")
    except RefusedError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        raise


def _oldest_alike(api: Api, started: QueuedBuild) -> int | None:
    """Return the oldest build that is newer than the request and has its parameters.

    If another user's build with the same parameters was in the queue at that moment, it is returned: the
    server merges both into one build.
    """
    newer = takewhile(lambda build: build.number > started.after, newest_first(api, started.job))
    return min((build.number for build in newer if has_parameters(build, started.parameters)), default=None)


def _parameter_names(fields: Mapping[str, Any]) -> set[str]:
    tables = [each for each in fields.get("property") or () if isinstance(each, dict)]
    definitions = [each for table in tables for each in table.get("parameterDefinitions") or ()]
    names = [each.get("name") for each in definitions if isinstance(each, dict)]
    return {name for name in names if isinstance(name, str)}
