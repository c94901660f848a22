"""The build queue, and search for builds and queue items by a parameter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from itertools import islice, takewhile
from typing import Any
from urllib.parse import unquote, urlsplit

from perftrend.clients.jenkins.api import Api
from perftrend.clients.jenkins.build_pages import newest_first
from perftrend.clients.jenkins.builds import JenkinsBuild, moment_of, parameters_of, text_of, whole_of
from perftrend.clients.jenkins.paths import is_name
from perftrend.clients.web.errors import RefusedError
from perftrend.errors import ServiceError

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
