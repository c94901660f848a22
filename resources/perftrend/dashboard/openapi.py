"""Completion of FastAPI's ``/openapi.json``: error responses and anonymous access of each operation.

These follow from the role, the parameters, the body and the path of an operation. Endpoints declare other
responses themselves, such as 409 for an edit that conflicts with another user's edit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from perftrend.dashboard.auth import Role

ABOUT = """\
Every page is also available as JSON under the same URL: send the header `Accept: application/json`, or add
`format=json` to the address. Otherwise the response is HTML. Values that are not numbers are null. Times are
in UTC.

An error is `{"error": "…"}` in one line. A request for a host name that the dashboard does not serve is
answered with status 421. Errors of requests that reach no page are lines of text: always for a request that
is not valid HTTP; for a body that is too long, too many requests and an unknown host name, unless the Accept
header has `application/json`.

A job authenticates by an API token. Without one it is a viewer if `dashboard.public` is on, or if users
cannot sign in.
"""

_FREE = ("/healthz", "/livez")
_ERRORS = {
    "400": "The request cannot be fulfilled, for example because a query has an error.",
    "401": "Authentication is required, or the API token is invalid; the message describes what to do.",
    "403": "The user may not do this, or the form is from another site.",
    "404": "It does not exist, or no longer exists.",
    "413": "The body is too long.",
    "415": "The body is neither a form nor JSON.",
    "422": "A parameter or a field is missing, or cannot be read; the answer names it.",
    "429": "Too many requests; Retry-After contains the number of seconds to wait.",
    "503": "The database cannot be reached or is too slow; try again later.",
}
_JSON = "application/json"
_TEXT_TOO = ("4XX", "400", "413", "429")
"""Statuses of responses that middleware may send as text before a request is routed."""

_FAULT = {"$ref": "#/components/schemas/Fault"}


def complete(document: dict[str, Any], *, is_public: bool) -> None:
    """Complete an OpenAPI document, in place.

    :param is_public: whether users may read without authentication.
    """
    document["info"]["description"] = ABOUT
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            responses, role = operation["responses"], role_of(operation)
            for status in _statuses(method, path, operation):
                response = {"description": _ERRORS[status], "content": {_JSON: {"schema": _FAULT}}}
                responses.setdefault(status, response)
            if role is not None:
                for each in responses.values():
                    if _JSON in each.get("content", {}):
                        each["content"].setdefault("text/html", {})
            for status in _TEXT_TOO:
                if status in responses:
                    responses[status]["content"].setdefault("text/plain", {})
            if is_public and role is Role.VIEWER:
                # The empty requirement means that authentication is optional.
                operation["security"].append({})


def role_of(operation: Mapping[str, Any]) -> Role | None:
    """Return the role that an operation requires; None: it requires none."""
    titles = (title for each in operation.get("security", ()) for scopes in each.values() for title in scopes)
    return max(map(Role.of, titles), default=None)


def _statuses(method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    """Yield the error statuses that an operation can return."""
    role, has_body = role_of(operation), "requestBody" in operation
    if path not in _FREE:
        yield "429"
    if role is not None:
        yield from ("401", "503")
    if role is not None and (method != "get" or role > Role.VIEWER):
        yield "403"
    if has_body or operation.get("parameters"):
        yield from ("400", "422")
    if has_body:
        yield from ("413", "415")
    if "{" in path:
        yield "404"
