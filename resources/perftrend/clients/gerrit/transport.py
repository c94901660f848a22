"""HTTP requests to a Gerrit server.

pygerrit2 provides the login and the URLs. This module limits the size and time of responses, and retries
requests after transient failures. A POST is not repeated unless the caller has checked its effect.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import pygerrit2  # type: ignore[import-untyped]  # it has no types
import requests
import urllib3
from requests.auth import HTTPBasicAuth

from perftrend.clients.web.body import whole
from perftrend.clients.web.errors import (
    RefusedError,
    ServiceLogin,
    TooLargeError,
    UnavailableError,
    format_request,
    status_error,
    transport_error,
)
from perftrend.clients.web.retry import Wait, retrier
from perftrend.clients.web.session import HttpSession
from perftrend.errors import ServiceError, UsageError

MAXIMUM_JSON = 32 * 1024**2
"""Maximum size of a response in bytes."""
_MAXIMUM_REASON = 4096
_LONGEST_REASON = 160
_PREFIX = b")]}'"
"""Gerrit's prefix of JSON, which prevents browsers from executing it."""
_EXPLAINED = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.CONFLICT,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)
"""Statuses with an explanation in the body of Gerrit's response."""

Query = Sequence[tuple[str, str]]


class Transport:
    """Requests to one Gerrit, by path below its address. Threads may share it.

    :param url: the address, without user and password.
    :raises UsageError: if the address is not valid, or there is a user without a token.
    """

    def __init__(
        self, url: str, *, user: str | None, token: str | None, timeout_s: float, attempts: int, wait: Wait
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc or "@" in parts.netloc:
            raise UsageError("gerrit.url should be http:// or https://, without user and password")
        if bool(user) != bool(token):
            raise UsageError("gerrit.user and gerrit.token belong together; give both or none")
        self.url = url.rstrip("/")
        self.host = parts.hostname or ""
        self._service = ServiceLogin("gerrit", user, timeout_s, _hints(user))
        self._secrets = _forms(user, token) if user and token else ()
        login = HTTPBasicAuth((user or "").encode(), (token or "").encode()) if user else None
        self._api = pygerrit2.GerritRestAPI(self.url, auth=login)
        self._api.session = HttpSession(timeout_s=timeout_s)
        self.retrying = retrier(attempts, wait)

    def json(self, path: str, query: Query = ()) -> Any:  # noqa: ANN401 - any JSON value
        """Return the JSON at a path, and retry after transient failures."""
        return self.retrying(self.json_once, path, query)

    def json_once(self, path: str, query: Query = ()) -> Any:  # noqa: ANN401 - as above
        """Return the JSON at a path, without retries.

        :raises UnavailableError: if a later attempt may succeed.
        :raises TooLargeError: if the response is larger than :data:`MAXIMUM_JSON`.
        """
        return self._send("GET", path, params=list(query))

    def post_once(self, path: str, body: object) -> Any:  # noqa: ANN401 - as above
        """Send a JSON object and return the JSON of the response.

        :raises UnavailableError: if it may have been received; check before sending it again.
        """
        return self._send("POST", path, json=body)

    def _send(self, method: str, path: str, **options: Any) -> Any:  # noqa: ANN401 - as above
        address = self._api.make_url(path)
        request = format_request(method, address)
        arguments = self._api.translate_kwargs(stream=True, **options)
        try:
            response = self._api.session.request(method, address, **arguments)
        except (OSError, ValueError, urllib3.exceptions.HTTPError) as error:
            # Not chained: errors of the libraries may contain the request with its login.
            raise transport_error(request, error, self._service) from None
        with response:
            if response.status_code >= HTTPStatus.MULTIPLE_CHOICES:
                raise self._status_error(request, response)
            return _decode(request, whole(response, MAXIMUM_JSON, self._service))

    def _status_error(self, request: str, response: requests.Response) -> ServiceError:
        """Return the error for a refusal, with Gerrit's reason if there is one."""
        error = status_error(request, response, self._service)
        if not isinstance(error, RefusedError) or error.status not in _EXPLAINED:
            return error
        reason = self._reason(response)
        if error.status == HTTPStatus.CONFLICT and re.search("lock.?failure", reason, re.IGNORECASE):
            return UnavailableError(f"{request}: another user writes to the same change; try again later")
        return RefusedError(f"{error}; Gerrit reports {reason!r}", error.status) if reason else error

    def _reason(self, response: requests.Response) -> str:
        """Return the first line of Gerrit's explanation, if it can be shown."""
        if not response.headers.get("Content-Type", "").startswith("text/plain"):
            return ""
        body = b""
        with suppress(TooLargeError, UnavailableError):
            body = whole(response, _MAXIMUM_REASON, self._service)
        line = body.decode("utf-8", "replace").strip().partition("\n")[0]
        clean = "".join(each if each.isprintable() else " " for each in line)
        # A server could echo the login.
        return "" if any(secret in clean for secret in self._secrets) else clean[:_LONGEST_REASON].strip()


def _hints(user: str | None) -> dict[int, str]:
    seen_by = f"the user {user!r}" if user else "everybody"
    return {
        HTTPStatus.BAD_REQUEST: "the request is not valid",
        HTTPStatus.NOT_FOUND: f"check gerrit.url and the number, and that {seen_by} may see it",
        HTTPStatus.CONFLICT: "the change is in another state; check it",
    }


def _forms(user: str, token: str) -> tuple[str, ...]:
    """Return the forms of a token, none of which may be shown."""
    return token, base64.b64encode(f"{user}:{token}".encode()).decode()


def _decode(request: str, body: bytes) -> Any:  # noqa: ANN401 - as above
    try:
        return json.loads(body.removeprefix(_PREFIX))
    except (ValueError, RecursionError):
        raise ServiceError(
            f"{request}: the response is not JSON; is a proxy or a login page in between? check gerrit.url"
        ) from None
