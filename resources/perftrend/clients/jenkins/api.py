"""Jenkins' JSON API: requests by tree, builds in pages, hints for unknown names.

A job with 20,000 builds needs neither one response nor thousands: a page is a range of the server's list,
newest first. The list changes while it is read: a new build shifts it backwards, which repeats builds, and a
deleted one shifts it forwards, which would omit builds. Therefore a page begins a little before the end of
the last one, and builds that were returned already are dropped.

python-jenkins provides the login and fetches the CSRF crumbs that a server requires for changes. This module
retries requests after transient failures, and limits the size and time of responses.
"""

from __future__ import annotations

import difflib
import json
import logging
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from typing import IO, Any
from urllib.parse import urlsplit

import jenkins  # type: ignore[import-untyped]  # it has no types
import requests
import tenacity
import urllib3
from typing_extensions import override

from perftrend.clients.http_service import (
    RefusedError,
    ServiceLogin,
    TooLargeError,
    UnreachedError,
    Wait,
    format_request,
    pieces,
    retrier,
    status_error,
    transport_error,
    whole,
)
from perftrend.clients.http_session import FILE_DEADLINE_S, HttpSession
from perftrend.clients.jenkins.builds import TREE, JenkinsBuild, is_name, job_path, number_of, read_build
from perftrend.errors import ServiceError, UsageError, nearest

LOG = logging.getLogger(__name__)

_DEEPEST_FOLDER = 20
"""Maximum nesting of folders; deeper ones are reported as an error of the server."""
FIRST_PAGE = 100
"""Builds in the first response; most callers need the newest only. The size doubles with each page."""
LARGEST_PAGE = 2000
NUMBERS_PAGE = 10_000
"""Builds in a response that contains only their numbers."""
OVERLAP = 10
"""Number of builds that may be deleted between two requests without omitting any."""

MAXIMUM_JSON = 32 * 1024**2
"""Maximum size of a JSON response in bytes."""
MAXIMUM_LOG = 1024**3
"""Maximum size of a console log in bytes."""
_IN_MEMORY = 1024**2
_MAXIMUM_CRUMB = 64 * 1024
_HINTS: Mapping[int, str] = {
    HTTPStatus.TOO_MANY_REQUESTS: "send fewer requests, see fetch.requests_per_second",
}


class Api:
    """Requests to one Jenkins, each with a limited response."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    def url(self, job: str) -> str:
        """Return the URL of a job's page, without a slash at its end."""
        return f"{self.transport.url}/{job_path(job)}"

    def knows_ranges(self) -> bool:
        """Return whether ranges of a list can be requested, which only Jenkins itself supports."""
        if self.transport.version is None:
            self.transport.json("", "mode")
        return bool(self.transport.version)

    def job(self, job: str, tree: str) -> dict[str, Any]:
        """Return the JSON of a job."""
        with self.suggest_similar_jobs(job):
            return self.transport.json(job_path(job), tree)

    def build(self, job: str, number: int) -> JenkinsBuild:
        """Return one build."""
        with self.suggest_similar_jobs(job):
            fields = self.transport.json(f"{job_path(job)}/{number}", TREE)
        return read_build(job, self.url(job), fields)

    def builds(self, job: str, begin: int, end: int) -> Sequence[JenkinsBuild]:
        """Return the builds of a range in the server's list; ``end`` is excluded."""
        listed = self._list(job, f"allBuilds[{TREE}]{{{begin},{end}}}")
        return [read_build(job, self.url(job), each) for each in listed]

    def build_numbers(self, job: str, begin: int, end: int) -> Sequence[int]:
        """Return the build numbers of a range in the server's list."""
        return [
            number_of(self.url(job), each) for each in self._list(job, f"allBuilds[number]{{{begin},{end}}}")
        ]

    def every_build(self, job: str) -> Sequence[JenkinsBuild]:
        """Return all builds, newest first, for servers without ranges."""
        listed = self._list(job, f"allBuilds[{TREE}],builds[{TREE}]")
        return sorted(
            (read_build(job, self.url(job), each) for each in listed), key=lambda build: -build.number
        )

    def names(
        self, path: str, folder: str, *, recursive: bool, depth: int = _DEEPEST_FOLDER
    ) -> Iterator[str]:
        """Yield the full names of the jobs at a path, which is a folder or one of its views."""
        listed = self.transport.json(path, "jobs[name,jobs[name]]").get("jobs") or ()
        for each in listed if isinstance(listed, list) else ():
            name = each.get("name") if isinstance(each, dict) else None
            if not is_name(name) or depth == 0:
                raise ServiceError(
                    f"{self.transport.url}/{path}: lists a job {name!r:.100}, which cannot exist there; "
                    "is jenkins.url right?"
                )
            full = f"{folder}/{name}" if folder else str(name)
            # In this list, only folders have a list of jobs.
            if "jobs" not in each:
                yield full
            elif recursive and each["jobs"]:
                yield from self.names(job_path(full), full, recursive=True, depth=depth - 1)

    @contextmanager
    def suggest_similar_jobs(self, job: str) -> Iterator[None]:
        """Add the names of similar jobs to the error if a job is not found."""
        try:
            yield
        except RefusedError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            raise RefusedError(f"{error}{self._nearest(job)}", error.status) from None

    def _nearest(self, job: str) -> str:
        folder = job.rpartition("/")[0]
        try:
            names = list(self.names(job_path(folder), folder, recursive=False))
        except ServiceError:
            return ""
        # A server has thousands of jobs; show only a few.
        return "" if job in names else nearest(job, difflib.get_close_matches(job, names, n=5, cutoff=0.4))

    def _list(self, job: str, tree: str) -> list[dict[str, Any]]:
        answer = self.job(job, tree)
        listed = answer.get("allBuilds", answer.get("builds")) or []
        if not isinstance(listed, list):
            raise ServiceError(f"{self.url(job)}: the response has no list of builds; is jenkins.url right?")
        return listed


def newest_first(api: Api, job: str, highest: int | None = None) -> Iterator[JenkinsBuild]:
    """Yield the builds of a job, newest first, requested page by page during the iteration.

    A page that is too large for one response is requested in smaller parts.

    :param highest: the highest number to return; pages before it are skipped by their numbers alone.
    """
    if not api.knows_ranges():
        found: Iterator[JenkinsBuild] = iter(api.every_build(job))
    else:
        found = _read_pages(api, job, _place_of(api, job, highest) if highest else 0)
    return (build for build in found if highest is None or build.number <= highest)


def _read_pages(api: Api, job: str, place: int) -> Iterator[JenkinsBuild]:
    size, last = FIRST_PAGE, None
    while True:
        begin = max(0, place - min(OVERLAP, size)) if last else place
        try:
            page = api.builds(job, begin, place + size)
        except TooLargeError:
            if size == 1:
                raise
            size //= 2
            continue
        fresh = [build for build in page if last is None or build.number < last]
        yield from sorted(fresh, key=lambda build: -build.number)
        if not fresh or len(page) < place + size - begin:
            return
        last = min(build.number for build in fresh)
        place, size = place + size, min(2 * size, LARGEST_PAGE)


def _place_of(api: Api, job: str, highest: int) -> int:
    """Return an index in the list before which all builds have a higher number."""
    place, last = 0, None
    while True:
        page = api.build_numbers(job, place, place + NUMBERS_PAGE)
        above = sum(number > highest for number in page)
        # A server that repeats itself has no end to find.
        if above < NUMBERS_PAGE or (last and page[-1] >= last):
            return max(0, place + above - OVERLAP)
        place, last = place + NUMBERS_PAGE, page[-1]


class Transport:
    """Requests to one Jenkins, by path below its address. Threads may share it.

    :param url: the address, without user and password.
    :param wait: pause between attempts.
    :raises UsageError: if the address is not valid, or there is a user without a token.
    """

    def __init__(
        self,
        url: str,
        *,
        user: str | None,
        token: str | None,
        timeout_s: float,
        attempts: int,
        wait: Wait,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc or "@" in parts.netloc:
            raise UsageError("jenkins.url should be http:// or https://, without user and password")
        if bool(user) != bool(token):
            raise UsageError("jenkins.user and jenkins.token belong together; give both or none")
        self.url = url.rstrip("/")
        self.version: str | None = None
        """Of the server, by its last JSON response; empty if it is not Jenkins but a compatible server."""
        self._service = ServiceLogin("jenkins", user, timeout_s, _HINTS)
        self._connection = _JenkinsConnection(f"{self.url}/", token, self._service)
        self._retrying = retrier(attempts, wait)

    def json(self, path: str, tree: str) -> dict[str, Any]:
        """Return the JSON at a path, limited to the fields of the tree.

        :raises TooLargeError: if the response is larger than :data:`MAXIMUM_JSON`.
        """
        return self._retrying(self._json, f"{path}/api/json".lstrip("/"), tree)

    def text(self, path: str, **query: str) -> tuple[IO[bytes], Mapping[str, str]]:
        """Return a text in a temporary file, at its beginning, and the response headers."""
        return self._retrying(self._text, path, query)

    def post(self, path: str, data: Mapping[str, str]) -> tuple[int, str]:
        """Send a form; return the status and the Location of the response.

        :raises UnreachedError: if the server did not receive it.
        :raises UnavailableError: if the server may have received it: it is not sent again.
        """
        for is_last in (False, True):
            request = requests.Request("POST", f"{self.url}/{path}", data=dict(data))
            self._retrying(self._add_crumb, request)
            try:
                with self._retrying.copy(retry=tenacity.retry_if_exception_type(UnreachedError))(
                    self._send, request
                ) as response:
                    return response.status_code, response.headers.get("Location", "")
            except RefusedError as error:
                # A crumb expires with its session; the server refused this form without processing it.
                if error.status != HTTPStatus.FORBIDDEN or not self._connection.crumb or is_last:
                    raise
                self._connection.crumb = None
        raise AssertionError("the last attempt returns or raises")

    @contextmanager
    def open(self, url: str) -> Iterator[Iterator[bytes]]:
        """Open a file; yield its bytes as they arrive."""
        # With a content encoding, the bytes would not be those of the file.
        request = requests.Request("GET", url, headers={"Accept-Encoding": "identity"})
        with self._retrying(self._send, request, is_file=True) as response:
            if response.status_code != HTTPStatus.OK:
                raise ServiceError(
                    f"{format_request('GET', url)}: answers with status {response.status_code}, but no file"
                )
            yield pieces(response, self._service, decode=False)

    def _json(self, path: str, tree: str) -> dict[str, Any]:
        request = requests.Request("GET", f"{self.url}/{path}", params={"tree": tree})
        with self._send(request) as response:
            body = whole(response, MAXIMUM_JSON, self._service)
            self.version = response.headers.get("X-Jenkins", "")
        try:
            fields = json.loads(body)
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            raise ServiceError(
                f"{format_request('GET', request.url)}: the response is not a JSON object; is a proxy or a "
                "login page in between? check jenkins.url"
            )
        return fields

    def _text(self, path: str, query: Mapping[str, str]) -> tuple[IO[bytes], Mapping[str, str]]:
        request = requests.Request("GET", f"{self.url}/{path}", params=dict(query))
        with ExitStack() as unless_whole:
            file = unless_whole.enter_context(tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY))
            response = unless_whole.enter_context(self._send(request, is_file=True))
            for piece in pieces(response, self._service, decode=True):
                file.write(piece)
                if file.tell() > MAXIMUM_LOG:
                    raise TooLargeError(
                        f"{format_request('GET', request.url)}: has more than {MAXIMUM_LOG} bytes"
                    )
            unless_whole.pop_all()
        response.close()
        file.seek(0)
        return file, response.headers

    def _send(self, request: requests.Request, *, is_file: bool = False) -> requests.Response:
        """Send one request, without retries; return the response with its body unread."""
        deadline_s = FILE_DEADLINE_S if is_file else None
        with self._convert_errors(format_request(request.method, request.url)):
            return self._connection.open(request, deadline_s)

    def _add_crumb(self, request: requests.Request) -> None:
        crumb_request = format_request("GET", f"{self.url}/{jenkins.CRUMB_URL}")
        with self._convert_errors(crumb_request):
            try:
                self._connection.maybe_add_crumb(request)
            except (json.JSONDecodeError, UnicodeError, TypeError, KeyError):
                self._connection.crumb = None
                raise ServiceError(
                    f"{crumb_request}: the response has no crumb; is a login page in between? "
                    "check jenkins.url"
                ) from None

    @contextmanager
    def _convert_errors(self, request: str) -> Iterator[None]:
        """Convert the errors of python-jenkins and the libraries below it."""
        try:
            yield
        except _StatusError as error:
            raise status_error(request, error.response, self._service) from None
        except (OSError, ValueError, urllib3.exceptions.HTTPError) as error:
            raise transport_error(request, error, self._service) from None


class _StatusError(Exception):
    def __init__(self, response: requests.Response) -> None:
        super().__init__(response.status_code)
        self.response = response


class _NotFoundError(_StatusError, jenkins.NotFoundException):  # type: ignore[misc]  # the library has no types
    """A status that python-jenkins interprets as a server without crumbs."""


class _JenkinsConnection(jenkins.Jenkins):  # type: ignore[misc]  # the library has no types
    """Session, login and crumbs of python-jenkins, with own handling of statuses and a limit for crumbs."""

    _session: HttpSession

    def __init__(self, url: str, token: str | None, service: ServiceLogin) -> None:
        super().__init__(url, service.user, token, service.timeout_s)
        self._service = service
        # The own session prevents that PYTHONHTTPSVERIFY silently disables certificate checks, or that an
        # installed Kerberos changes the user.
        given = self._session.headers
        self._session = HttpSession(timeout_s=service.timeout_s, netrc=True, log=LOG)
        # JENKINS_API_EXTRA_HEADERS
        self._session.headers.update({name: given[name] for name in given.keys() - self._session.headers})
        del self._auths[1:]

    def open(self, request: requests.Request, deadline_s: float | None = None) -> requests.Response:
        """Return the response to a request with its body unread; see :meth:`HttpSession.send`."""
        self._maybe_add_auth()
        prepared = self._session.prepare_request(request)
        # After a POST, the redirect points to the queue item; following it would be a useless request.
        return self._response_handler(self._session.send(prepared, stream=True, deadline_s=deadline_s))

    @override
    def jenkins_open(self, req: requests.Request, add_crumb: bool = True, resolve_auth: bool = True) -> str:
        with self.open(req) as response:
            return whole(response, _MAXIMUM_CRUMB, self._service).decode()

    @override
    def _response_handler(self, response: requests.Response) -> requests.Response:
        if response.status_code >= HTTPStatus.BAD_REQUEST:
            response.close()
            missing = response.status_code == HTTPStatus.NOT_FOUND
            raise (_NotFoundError if missing else _StatusError)(response)
        return response
