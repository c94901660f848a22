"""Gerrit's REST API: requests, and responses that are validated and limited in size.

pygerrit2 provides the login and the URLs. This module limits the size and time of responses, and retries
requests after transient failures. A POST is not repeated unless the caller has checked its effect.
"""

from __future__ import annotations

import base64
import json
import logging
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import pygerrit2  # type: ignore[import-untyped]  # it has no types
import requests
import urllib3
from requests.auth import HTTPBasicAuth

from perftrend.clients.gerrit import validation
from perftrend.clients.gerrit.changes import (
    DETAILS,
    Account,
    AccountGroup,
    ChangedFile,
    Comment,
    GerritChange,
    LabelRights,
    read_account,
    read_change,
    read_comments,
    read_files,
    read_group,
    read_messages,
)
from perftrend.clients.http_service import (
    RefusedError,
    ServiceLogin,
    TooLargeError,
    UnavailableError,
    Wait,
    format_request,
    retrier,
    status_error,
    transport_error,
    whole,
)
from perftrend.clients.http_session import HttpSession
from perftrend.errors import ServiceError, UsageError

LOG = logging.getLogger(__name__)

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
_STREAM = "streamEvents"
"""The capability to read the stream of events."""

Query = Sequence[tuple[str, str]]


class Api:
    """The requests of one user to one Gerrit."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    @cached_property
    def account(self) -> Account:
        """The account of the requests."""
        with validation.convert_errors(f"{self.transport.url}/accounts/self"):
            return read_account(self.transport.json("accounts/self"))

    def number(self, username: str) -> int | None:
        """Return the number of an account; None if none has the name, or the user cannot see it.

        A path with the name in it would work for most, but would interpret a name such as ``self`` or
        ``1000000`` differently.
        """
        if not username:
            return None
        found = self.transport.json("accounts/", [("q", f"username:{phrase(username)}"), ("o", "DETAILS")])
        with validation.convert_errors(f"{self.transport.url}/accounts/"):
            accounts = [read_account(each) for each in validation.tables(found)]
        named = [each.number for each in accounts if each.username.casefold() == username.casefold()]
        return named[0] if len(named) == 1 else None

    def groups_of(self, number: int) -> tuple[AccountGroup, ...]:
        """Return the groups of an account that the user can see."""
        found = self.transport.json(f"accounts/{number}/groups")
        with validation.convert_errors(f"{self.transport.url}/accounts/{number}/groups"):
            return tuple(read_group(each) for each in validation.tables(found))

    def groups(self) -> tuple[AccountGroup, ...]:
        """Return all groups that the user can see."""
        found = self.transport.json("groups/")
        with validation.convert_errors(f"{self.transport.url}/groups/"):
            named = [
                {**validation.table(each), "name": name} for name, each in validation.table(found).items()
            ]
            return tuple(read_group(each) for each in named)

    def change(self, number: int) -> GerritChange:
        """Return a change with all details except its messages."""
        return self.read_change(self.transport.json(change_path(number), options(DETAILS)))

    def change_with_messages(self, number: int) -> tuple[GerritChange, tuple[Comment, ...]]:
        """Return a change and its messages in one consistent state, without retries."""
        found = self.transport.json_once(change_path(number), options((*DETAILS, "MESSAGES")))
        with validation.convert_errors(f"{self.transport.url}/{change_path(number)}"):
            return read_change(found), read_messages(validation.table(found).get("messages"))

    def files(self, number: int, patch_set: int) -> tuple[ChangedFile, ...]:
        """Return the files of a patch set."""
        path = f"{change_path(number)}/revisions/{patch_set:d}/files"
        found = self.transport.json(path)
        with validation.convert_errors(f"{self.transport.url}/{path}"):
            return read_files(found)

    def comments(self, number: int) -> tuple[Comment, ...]:
        """Return the messages and the comments of a change."""
        # A comment added between the two requests has its message in the second response, and is read later.
        by_path = self.transport.json(f"{change_path(number)}/comments")
        messages = self.transport.json(f"{change_path(number)}/messages")
        with validation.convert_errors(f"{self.transport.url}/{change_path(number)}/comments"):
            return read_comments(messages, by_path)

    def changes(self, query: str, start: int, count: int, details: Sequence[str]) -> list[Mapping[str, Any]]:
        """Return the JSON of the changes that match a query, the last updated first."""
        bounds = [("q", query), ("n", str(count)), ("S", str(start))]
        found = self.transport.json("changes/", [*bounds, *options(details)])
        with validation.convert_errors(f"{self.transport.url}/changes/"):
            return validation.tables(found)

    def read_change(self, found: object) -> GerritChange:
        """Return a change from its JSON."""
        with validation.convert_errors(f"{self.transport.url}/changes/"):
            return read_change(found)

    def label_rights(self, label: str, project: str) -> LabelRights | None:
        """Return the user's rights on the newest open change; None if the user sees none.

        :param project: name of its project; empty for any.
        """
        query = f"status:open project:{phrase(project)}" if project else "status:open"
        for found in self.changes(query, 0, 1, ("DETAILED_LABELS",)):
            with validation.convert_errors(f"{self.transport.url}/changes/"):
                permitted = validation.table(found.get("permitted_labels") or {})
                votes = (int(validation.text(each)) for each in validation.items(permitted.get(label)))
                return LabelRights(
                    validation.some_text(found.get("project")),
                    validation.whole(found.get("_number")),
                    tuple(sorted(validation.table(found.get("labels") or {}))),
                    tuple(sorted(votes)),
                )
        return None

    def may_stream(self) -> bool:
        """Return whether the user may read the stream of events."""
        path = "accounts/self/capabilities"
        with validation.convert_errors(f"{self.transport.url}/{path}"):
            return validation.table(self.transport.json(path, [("q", _STREAM)])).get(_STREAM) is True


def change_path(number: int) -> str:
    """Return the path of a change.

    :raises UsageError: if the number is less than 1.
    """
    if number < 1:
        raise UsageError(f"no change has the number {number}; give the one that its page shows")
    return f"changes/{number:d}"


def options(names: Sequence[str]) -> Query:
    """Return the query parameters for detail options."""
    return [("o", name) for name in names]


def phrase(text: str) -> str:
    """Return a text as a quoted term of a query.

    :raises UsageError: if it cannot be quoted.
    """
    if '"' in text or "\\" in text or not text.isprintable():
        raise UsageError(f"{text!r} cannot be used in a query; give a name without quotes")
    return f'"{text}"'


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
        self._api.session = HttpSession(timeout_s=timeout_s, log=LOG)
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
