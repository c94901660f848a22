"""Client of a Jenkins server: jobs, builds, files, and what jobs depend on, such as plugins and rights.

Source: the remote access API of Jenkins, and of its plugin Lockable Resources (version 2.14 or later).
"""

from __future__ import annotations

import codecs
import fnmatch
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from perftrend.clients.http_service import RefusedError, UnavailableError, Wait, pause_before_retry
from perftrend.clients.jenkins import queue
from perftrend.clients.jenkins.api import Api, Transport, newest_first
from perftrend.clients.jenkins.builds import JenkinsBuild, is_below, job_path, number_of, view_path
from perftrend.clients.jenkins.queue import QueuedBuild, QueueItem
from perftrend.errors import ServiceError, SettingsError
from perftrend.settings import JenkinsSettings

Numbers = tuple[int | None, int | None]
"""The lowest and the highest build number, both included; None: no limit."""

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


def connect(settings: JenkinsSettings) -> Jenkins:
    """Return the Jenkins that the settings name. No request is sent yet.

    :raises SettingsError: if they do not name one, or name a user without a token.
    """
    if not settings.url:
        raise SettingsError("jenkins.url is not set; give the address of Jenkins")
    if bool(settings.user) != bool(settings.token):
        raise SettingsError("jenkins.user and jenkins.token belong together; set both or none")
    return Jenkins(
        settings.url,
        user=settings.user,
        token=settings.token.get_secret_value() if settings.token else None,
        timeout_s=settings.timeout_s,
        attempts=settings.attempts,
    )


class Jenkins:
    """A Jenkins server, as seen by one user. Threads may share it.

    :param url: its address, such as ``https://jenkins.example.org``, without user and password.
    :param user: the user of the requests; None: anonymous.
    :param token: the user's API token.
    :param timeout_s: maximum wait for bytes of the server.
    :param attempts: maximum number of attempts of a request.
    :param wait: pause between attempts; by default what the server requests, or exponential backoff.
    :param sleep: pauses between two polls of a build.
    :raises UsageError: if the address is not valid, or a user has no token.

    Every method raises ServiceError if the server refuses, fails or does not respond like Jenkins, in
    particular :class:`UnavailableError` if a later attempt may succeed, and UsageError if the name of a job
    is not valid.
    """

    def __init__(
        self,
        url: str,
        *,
        user: str | None = None,
        token: str | None = None,
        timeout_s: float = 30.0,
        attempts: int = 5,
        wait: Wait = pause_before_retry,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._transport = Transport(
            url, user=user, token=token, timeout_s=timeout_s, attempts=attempts, wait=wait
        )
        self._api = Api(self._transport)
        self._sleep = sleep

    @property
    def url(self) -> str:
        """The address, without a slash at its end."""
        return self._transport.url

    def jobs(
        self,
        pattern: str | None = None,
        *,
        folder: str = "",
        view: str | None = None,
        recursive: bool = True,
    ) -> Iterator[str]:
        """Yield the full names of jobs, with their folders: ``team/nightly``.

        :param pattern: shell pattern for the full name, ``perftrend-*``; a star also matches slashes.
        :param folder: list only this folder; empty: all.
        :param view: list only the jobs of this view of the folder; ``a/b`` is a nested view.
        :param recursive: whether to list subfolders, too.
        """
        path = "/".join(filter(None, (job_path(folder), view_path(view or ""))))
        for name in self._api.names(path, folder, recursive=recursive):
            if pattern is None or fnmatch.fnmatchcase(name, pattern):
                yield name

    def builds(
        self, job: str, *, since: datetime | None = None, numbers: Numbers = (None, None)
    ) -> Iterator[JenkinsBuild]:
        """Yield the builds of a job, newest first, and request more during the iteration.

        Builds that start or are deleted meanwhile do not affect the result. A server that is only compatible
        with Jenkins returns all of them in one response.

        :param since: builds that started earlier are left out; with a time zone.
        :param numbers: limits of the number.
        """
        lowest, highest = numbers
        for build in newest_first(self._api, job, highest):
            if (lowest and build.number < lowest) or (since and build.started < since):
                return
            yield build

    def queue(self, job: str | None = None) -> Sequence[QueueItem]:
        """Return the queued builds, newest first; none if the server does not have a queue.

        :param job: full name; None: of all jobs that the user can see.
        :raises TooLargeError: if the response is larger than 32 MiB.
        """
        return queue.queue(self._api, job)

    def find(
        self, job: str, name: str, value: str, *, since: datetime | None = None, within: int = 1000
    ) -> Sequence[QueueItem | JenkinsBuild]:
        """Return what was started with a value of a parameter: queued builds, then builds, newest first.

        A build that leaves the queue meanwhile is returned once, as a build.

        :param name: of the parameter; its value is compared without whitespace at its ends.
        :param since: builds that started earlier are left out; with a time zone.
        :param within: number of newest builds that are searched.
        """
        return queue.find(self._api, job, name, value, since=since, within=within)

    def is_jenkins(self) -> bool:
        """Return whether the server is Jenkins itself, not one that is only compatible with it."""
        return self._api.knows_ranges()

    def plugins(self) -> Mapping[str, bool]:
        """Return the installed plugins by their short name, and whether each is active."""
        listed = _tables(self._transport, "pluginManager", "plugins[shortName,active]", "plugins")
        return {str(each.get("shortName")): each.get("active") is True for each in listed}

    def agents(self, label: str) -> AgentLabel:
        """Return the agents that have a label; the built-in node counts as one."""
        path = f"label/{quote(label, safe='')}"
        try:
            fields = self._transport.json(path, "nodes[nodeName],offline")
        except RefusedError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return AgentLabel(0, is_offline=True)
        nodes = fields.get("nodes")
        return AgentLabel(len(nodes) if isinstance(nodes, list) else 0, fields.get("offline") is not False)

    def resources(self, label: str) -> int:
        """Return the number of lockable resources that have a label."""
        tree = "resources[name,labels,labelsAsList]"
        listed = _tables(self._transport, "lockable-resources", tree, "resources")
        return sum(label in _labels(each) for each in listed)

    def may_start(self, job: str) -> bool:
        """Return whether the page of a job offers the user to start a build; none is started.

        Jenkins has no other request that shows this without starting one.
        """
        with self._api.suggest_similar_jobs(job):
            return self._has_text(f"{self._api.url(job)}/", _START)

    def may_end(self, job: str) -> bool | None:
        """Return whether the page of a running build offers the user to abort it; none is aborted.

        Jenkins has no other request that shows this without aborting one.

        :returns: None if the newest build of the job is not running.
        """
        number = self._running_build(job)
        if number is None:
            return None
        if self._has_text(f"{self._api.url(job)}/{number}/", _END):
            return True
        # The build may have ended before its page was made.
        return False if self._running_build(job) == number else None

    def _running_build(self, job: str) -> int | None:
        newest = self._api.job(job, "lastBuild[number,building]").get("lastBuild")
        if not isinstance(newest, dict) or newest.get("building") is not True:
            return None
        return number_of(self._api.url(job), newest)

    def _has_text(self, url: str, text: bytes) -> bool:
        page = b""
        with self._transport.open(url) as pieces:
            for piece in pieces:
                page += piece
                if text in page or len(page) > _LONGEST_PAGE:
                    break
        return text in page

    def build(self, job: str, number: int) -> JenkinsBuild:
        """Return one build of a job."""
        return self._api.build(job, number)

    def console(self, job: str, number: int, start: int = 0, *, poll_s: float = 2.0) -> Iterator[str]:
        """Yield the console output of a build until it ends, with an empty text if there is nothing new.

        :param start: offset to begin at, in bytes of the server's log.
        :param poll_s: pause between two requests.
        """
        path = f"{job_path(job)}/{number}/logText/progressiveText"
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        is_written = True
        while is_written:
            with self._api.suggest_similar_jobs(job):
                file, headers = self._transport.text(path, start=str(start))
            with file:
                while piece := file.read(2**16):
                    yield decoder.decode(piece)
                yield ""
            end = headers.get("X-Text-Size", "")
            start = max(start, int(end)) if re.fullmatch(r"[0-9]{1,18}", end) else start
            is_written = headers.get("X-More-Data") == "true"
            if is_written:
                self._sleep(poll_s)
        yield decoder.decode(b"", final=True)

    def open(self, url: str) -> AbstractContextManager[Iterator[bytes]]:
        """Open a file of this server, such as an artifact; yield its bytes, up to 64 KiB at a time."""
        if not is_below(url, self.url):
            raise ServiceError(f"{url!r} is not below {self.url}; it is not requested")
        return self._transport.open(url)

    def start(self, job: str, parameters: Mapping[str, str] | None = None) -> QueuedBuild:
        """Start a build; parameters that are not given have their defaults.

        The request is sent once. If its response is lost and the server may have started the build, the error
        message mentions it.

        :raises UsageError: if the job has no such parameter, or is disabled.
        """
        return queue.start(self._api, job, parameters or {})

    def cancel(self, item: QueueItem) -> None:
        """Remove a queued build; one that has left the queue meanwhile is no error, and continues."""
        queue.cancel(self._api, item)

    def abort(self, build: JenkinsBuild) -> None:
        """Abort a running build, which may take a while to end; one that has ended is no error.

        The user needs the permission *Job/Cancel*.
        """
        queue.abort(self._api, build)

    def wait(
        self, build: QueuedBuild | tuple[str, int], *, timeout_s: float, poll_s: float = 5.0
    ) -> JenkinsBuild:
        """Wait until a build has ended, also if the server is unavailable meanwhile.

        :param build: the result of :meth:`start`, or a job and a number.
        :raises ServiceError: if it does not end in time, or is removed from the queue.
        """
        job, number = (build.job, None) if isinstance(build, QueuedBuild) else build
        deadline = time.monotonic() + timeout_s
        while True:
            is_late = time.monotonic() >= deadline
            try:
                if number is None and isinstance(build, QueuedBuild):
                    number = queue.number(self._api, build)
                if number is not None and (found := self.build(job, number)).is_finished:
                    return found
            except UnavailableError:
                if is_late:
                    raise
            if is_late:
                what = (
                    f"job {job!r} has not left the queue"
                    if number is None
                    else f"{job}/{number} has not ended"
                )
                raise ServiceError(f"{what} after {timeout_s:g} s; see {self._api.url(job)}/")
            self._sleep(min(poll_s, max(0.0, deadline - time.monotonic())))


def _labels(resource: Mapping[str, Any]) -> Sequence[object]:
    listed, text = resource.get("labelsAsList"), resource.get("labels")
    if isinstance(listed, list):
        return listed
    return text.split() if isinstance(text, str) else ()


def _tables(transport: Transport, path: str, tree: str, name: str) -> list[Mapping[str, Any]]:
    listed = transport.json(path, tree).get(name)
    if not isinstance(listed, list):
        raise ServiceError(f"{transport.url}/{path}: the response has no {name}; is jenkins.url right?")
    return [each for each in listed if isinstance(each, dict)]
