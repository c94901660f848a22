"""The jobs, builds and files of one Jenkins."""

from __future__ import annotations

import codecs
import fnmatch
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime

from perftrend.clients.jenkins import running, waiting
from perftrend.clients.jenkins.api import Api
from perftrend.clients.jenkins.builds import Build
from perftrend.clients.jenkins.listing import newest_first
from perftrend.clients.jenkins.paths import is_below, job_path, view_path
from perftrend.clients.jenkins.running import Started
from perftrend.clients.jenkins.transport import Transport
from perftrend.clients.jenkins.waiting import QueueItem
from perftrend.clients.web.refusals import UnavailableError
from perftrend.clients.web.retrying import Wait, patiently
from perftrend.errors import ServiceError, SettingsError
from perftrend.settings import JenkinsSettings

Numbers = tuple[int | None, int | None]
"""The lowest and the highest build number, both included; None: no bound."""


def connect(settings: JenkinsSettings) -> Jenkins:
    """Return the Jenkins that the settings name. Nothing is asked yet.

    :raises SettingsError: if they name none, or a user without a token.
    """
    if not settings.url:
        raise SettingsError("jenkins.url is not set; say which Jenkins to ask")
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
    """One Jenkins, as one user sees it. Threads may share it.

    :param url: its address, such as ``https://jenkins.example.org``, without user and password.
    :param user: who asks; None: everybody.
    :param token: the user's API token.
    :param timeout_s: a server that says nothing for so long has failed to answer.
    :param attempts: how often something is asked before the server is given up.
    :param wait: how long to pause between attempts; by default what the server asks for, or ever longer.
    :param sleep: pauses between two looks at a build.
    :raises UsageError: if the address is none, or a user has no token.

    Every method raises ServiceError for a server that refuses, fails or answers as Jenkins would not,
    :class:`UnavailableError` among them where it may be otherwise later, and UsageError for a name that no
    job can have.
    """

    def __init__(
        self,
        url: str,
        *,
        user: str | None = None,
        token: str | None = None,
        timeout_s: float = 30.0,
        attempts: int = 5,
        wait: Wait = patiently,
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
        """Yield the full names of jobs, folders before them: ``team/nightly``.

        :param pattern: as in a shell, ``perftrend-*``, for the full name; a star stands for slashes, too.
        :param folder: look there only; empty: everywhere.
        :param view: look at the jobs of that view of the folder only; ``a/b`` is a view in a view.
        :param recursive: whether to look into folders, too.
        """
        path = "/".join(filter(None, (job_path(folder), view_path(view or ""))))
        for name in self._api.names(path, folder, recursive=recursive):
            if pattern is None or fnmatch.fnmatchcase(name, pattern):
                yield name

    def builds(
        self, job: str, *, since: datetime | None = None, numbers: Numbers = (None, None)
    ) -> Iterator[Build]:
        """Yield the builds of a job, newest first, asking for more as they are taken.

        Builds that begin or are deleted meanwhile do no harm. A server that is merely like Jenkins is
        asked for all of them at once.

        :param since: builds that started earlier are left out; with a time zone.
        :param numbers: bounds of the number.
        """
        lowest, highest = numbers
        for build in newest_first(self._api, job, highest):
            if (lowest and build.number < lowest) or (since and build.started < since):
                return
            yield build

    def queue(self, job: str | None = None) -> Sequence[QueueItem]:
        """Return the builds that wait, newest first; none where the server has no such address.

        :param job: full name; None: of all jobs that the user sees.
        :raises TooLargeError: if that is more than 32 MiB.
        """
        return waiting.queue(self._api, job)

    def find(
        self, job: str, name: str, value: str, *, since: datetime | None = None, within: int = 1000
    ) -> Sequence[QueueItem | Build]:
        """Return what was started with a value of a parameter: what waits, then builds, newest first.

        A build that leaves the queue meanwhile is told as a build, and once.

        :param name: of the parameter; its value is compared without blanks at its ends.
        :param since: builds that started earlier are left out; with a time zone.
        :param within: so many of the newest builds are looked at.
        """
        return waiting.find(self._api, job, name, value, since=since, within=within)

    def build(self, job: str, number: int) -> Build:
        """Return one build of a job."""
        return self._api.build(job, number)

    def console(self, job: str, number: int, start: int = 0, *, poll_s: float = 2.0) -> Iterator[str]:
        """Yield what a build writes, until it ends; an empty text where there is nothing new.

        :param start: offset to begin at, in bytes of the server's own log.
        :param poll_s: how long to wait for more.
        """
        path = f"{job_path(job)}/{number}/logText/progressiveText"
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        is_written = True
        while is_written:
            with self._api.found(job):
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
        """Open a file of this server, such as an artifact; its bytes come up to 64 KiB at a time."""
        if not is_below(url, self.url):
            raise ServiceError(f"{url!r} does not lie below {self.url}; it is not asked for")
        return self._transport.open(url)

    def start(self, job: str, parameters: Mapping[str, str] | None = None) -> Started:
        """Start a build; a parameter that is not given has its default.

        It is asked for once: where the server may have started it, but failed to say so, the error
        tells that.

        :raises UsageError: if the job has no such parameter, or is disabled.
        """
        return running.start(self._api, job, parameters or {})

    def wait(self, build: Started | tuple[str, int], *, timeout_s: float, poll_s: float = 5.0) -> Build:
        """Wait until a build has ended; a server that is away meanwhile is waited for, too.

        :param build: what :meth:`start` returned, or a job and a number.
        :raises ServiceError: if it does not end in time, or is taken out of the queue.
        """
        job, number = (build.job, None) if isinstance(build, Started) else build
        deadline = time.monotonic() + timeout_s
        while True:
            is_late = time.monotonic() >= deadline
            try:
                if number is None and isinstance(build, Started):
                    number = running.number(self._api, build)
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
