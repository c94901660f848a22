"""What jobs depend on in Jenkins: plugins, agents, lockable resources, and rights on builds.

Source: the remote access API of Jenkins, and of its plugin Lockable Resources (version 2.14 or later).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from perftrend.clients.http_service import RefusedError
from perftrend.clients.jenkins.api import Api
from perftrend.clients.jenkins.builds import number_of
from perftrend.errors import ServiceError

_START = b"/build?delay="
"""In the page of a job, a part of the link that starts a build; only those who may start one see it."""
_END = b'href="stop"'
"""In the page of a running build, the link that aborts it; only those who may abort it see it."""
_LONGEST_PAGE = 4 * 1024**2


@dataclass(frozen=True, slots=True)
class AgentLabel:
    """The agents that have a label."""

    agents: int
    is_offline: bool
    """Whether none of them can run a build now."""


def plugins(api: Api) -> Mapping[str, bool]:
    """Return the installed plugins by their short name, and whether each is active."""
    listed = _tables(api, "pluginManager", "plugins[shortName,active]", "plugins")
    return {str(each.get("shortName")): each.get("active") is True for each in listed}


def agents(api: Api, label: str) -> AgentLabel:
    """Return the agents that have a label; the built-in node counts as one."""
    path = f"label/{quote(label, safe='')}"
    try:
        fields = api.transport.json(path, "nodes[nodeName],offline")
    except RefusedError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return AgentLabel(0, is_offline=True)
    nodes = fields.get("nodes")
    return AgentLabel(len(nodes) if isinstance(nodes, list) else 0, fields.get("offline") is not False)


def resources(api: Api, label: str) -> int:
    """Return the number of lockable resources that have a label."""
    listed = _tables(api, "lockable-resources", "resources[name,labels,labelsAsList]", "resources")
    return sum(label in _labels(each) for each in listed)


def may_start(api: Api, job: str) -> bool:
    """Return whether the page of a job offers the user to start a build; no build is started.

    Jenkins has no other request that shows this without starting one.
    """
    with api.suggest_similar_jobs(job):
        return _has_text(api, f"{api.url(job)}/", _START)


def may_end(api: Api, job: str) -> bool | None:
    """Return whether the page of a running build offers the user to abort it; no build is aborted.

    Jenkins has no other request that shows this without aborting one.

    :returns: None if the newest build of the job is not running.
    """
    number = _running_build(api, job)
    if number is None:
        return None
    if _has_text(api, f"{api.url(job)}/{number}/", _END):
        return True
    # The build may have ended before its page was made.
    return False if _running_build(api, job) == number else None


def _running_build(api: Api, job: str) -> int | None:
    newest = api.job(job, "lastBuild[number,building]").get("lastBuild")
    if not isinstance(newest, dict) or newest.get("building") is not True:
        return None
    return number_of(api.url(job), newest)


def _has_text(api: Api, url: str, text: bytes) -> bool:
    page = b""
    with api.transport.open(url) as pieces:
        for piece in pieces:
            page += piece
            if text in page or len(page) > _LONGEST_PAGE:
                break
    return text in page


def _labels(resource: Mapping[str, Any]) -> Sequence[object]:
    listed, text = resource.get("labelsAsList"), resource.get("labels")
    if isinstance(listed, list):
        return listed
    return text.split() if isinstance(text, str) else ()


def _tables(api: Api, path: str, tree: str, name: str) -> list[Mapping[str, Any]]:
    listed = api.transport.json(path, tree).get(name)
    if not isinstance(listed, list):
        raise ServiceError(f"{api.transport.url}/{path}: the response has no {name}; is jenkins.url right?")
    return [each for each in listed if isinstance(each, dict)]
