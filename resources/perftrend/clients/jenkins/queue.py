"""The build queue: starting a build, finding it again, ending it, and search for a parameter's value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from itertools import islice, takewhile
from typing import Any
from urllib.parse import unquote, urlsplit

from perftrend.clients.http_service import RefusedError, UnavailableError, UnreachedError
from perftrend.clients.jenkins.api import Api, newest_first
from perftrend.clients.jenkins.builds import (
    JenkinsBuild,
    has_parameters,
    is_name,
    job_path,
    moment_of,
    parameters_of,
    text_of,
    whole_of,
)
from perftrend.errors import ServiceError, UsageError, nearest

_TREE = "items[id,why,inQueueSince,task[url],actions[parameters[name,value]]]"


@dataclass(frozen=True, slots=True)
class QueueItem:
    """A requested build that has no number yet."""

    number: int
    """Of the item, which differs from the number of the later build; later items have higher numbers."""
    job: str
    """Full name, with its folders."""
    since: datetime
    """Time of the request, UTC."""
    why: str = ""
    """What it waits for, as the server displays it."""
    parameters: Mapping[str, str] = field(default_factory=dict, hash=False)


def queue(api: Api, job: str | None) -> Sequence[QueueItem]:
    """Return the queued builds, newest first. See :meth:`Jenkins.queue`."""
    try:
        listed = api.transport.json("queue", _TREE).get("items") or []
    except RefusedError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return []
        raise
    try:
        items = sorted(_items(listed), key=lambda item: -item.number)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, OSError):
        raise ServiceError(
            f"{api.transport.url}/queue: the response is not a valid queue; is jenkins.url right?"
        ) from None
    return [item for item in items if job in (None, item.job)]


def find(
    api: Api, job: str, name: str, value: str, *, since: datetime | None, within: int
) -> Sequence[QueueItem | JenkinsBuild]:
    """Return what was started with a value of a parameter. See :meth:`Jenkins.find`."""
    # Read the queue first: an item that leaves it meanwhile is then found as a build, or as both.
    waiting = queue(api, job)
    recent = takewhile(
        lambda build: not since or build.started >= since, islice(newest_first(api, job), within)
    )
    builds = [build for build in recent if _has(build, name, value)]
    started = {build.queue_item for build in builds}
    return [
        *(item for item in waiting if _has(item, name, value) and item.number not in started),
        *builds,
    ]


def _has(found: QueueItem | JenkinsBuild, name: str, value: str) -> bool:
    # A server trims some kinds of text.
    return name in found.parameters and found.parameters[name].strip() == value.strip()


def _items(listed: Sequence[Mapping[str, Any]]) -> Iterator[QueueItem]:
    for each in listed:
        job = _job(each["task"] or {})
        # Steps of running builds may be queued, too: their tasks are not jobs.
        if job:
            yield QueueItem(
                number=whole_of(each["id"]),
                job=job,
                since=moment_of(each["inQueueSince"]),
                why=text_of(each.get("why") or "").strip(),
                parameters=parameters_of(each.get("actions") or ()),
            )


def _job(task: Mapping[str, Any]) -> str:
    """Return the full name of a job; empty if the task is not a job."""
    path = re.search(r"(?:/job/[^/]+)+/?\Z", urlsplit(text_of(task.get("url") or "")).path)
    parts = [unquote(part) for part in re.findall(r"/job/([^/]+)", path[0])] if path else []
    return "/".join(parts) if all(map(is_name, parts)) else ""


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


def cancel(api: Api, item: QueueItem) -> None:
    """Remove an item from the queue. See :meth:`Jenkins.cancel`."""
    if api.knows_ranges():
        path = f"queue/cancelItem?id={item.number}"
    else:
        path = f"queue/item/{item.number}/cancelQueue"
    _post_if_there(api, path)


def abort(api: Api, build: JenkinsBuild) -> None:
    """Abort a build. See :meth:`Jenkins.abort`."""
    _post_if_there(api, f"{job_path(build.job)}/{build.number}/stop")


def _post_if_there(api: Api, path: str) -> None:
    try:
        api.transport.post(path, {})
    except RefusedError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise


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
