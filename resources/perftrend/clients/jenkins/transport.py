"""HTTP requests to a Jenkins server.

python-jenkins provides the login and fetches the CSRF crumbs that a server requires for changes. This module
retries requests after transient failures, and limits the size and time of responses.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from typing import IO, Any
from urllib.parse import urlsplit

import jenkins  # type: ignore[import-untyped]  # it has no types
import requests
import tenacity
import urllib3
from typing_extensions import override

from perftrend.clients.web.body import pieces, whole
from perftrend.clients.web.errors import (
    RefusedError,
    ServiceLogin,
    TooLargeError,
    UnreachedError,
    format_request,
    status_error,
    transport_error,
)
from perftrend.clients.web.retry import Wait, retrier
from perftrend.clients.web.session import FILE_DEADLINE_S, HttpSession
from perftrend.errors import ServiceError, UsageError

MAXIMUM_JSON = 32 * 1024**2
"""Maximum size of a JSON response in bytes."""
MAXIMUM_LOG = 1024**3
"""Maximum size of a console log in bytes."""
_IN_MEMORY = 1024**2
_MAXIMUM_CRUMB = 64 * 1024
_HINTS: Mapping[int, str] = {
    HTTPStatus.TOO_MANY_REQUESTS: "send fewer requests, see fetch.requests_per_second",
}


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
        self._session = HttpSession(timeout_s=service.timeout_s, netrc=True)
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
