"""Error pages: a status and a one-line message, for users and programs; a form comes back with its errors.

A program receives ``{"error": "…"}``. Confidential details, such as the location of the database, are only
written to the log.

If a form cannot be accepted, its page comes back with what was typed, and with the errors at its fields. The
page is rendered again, as for a GET request of the same user, and the form in it is filled in. It is the page
that the browser came from, or one above the address of the form: ``/alerts/7`` for a form that is sent to
``/alerts/7/override``. If none of them contains the form, the response is an error page.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http import HTTPMethod, HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException as AnyHTTPException
from starlette.responses import HTMLResponse
from starlette.routing import Match
from starlette.types import Message, Scope

from perftrend.dashboard.auth import known_user
from perftrend.dashboard.auth.csrf import FIELD
from perftrend.dashboard.html_forms import PAGE, FormProblem, SubmittedForm, show_problems
from perftrend.dashboard.middleware.access_log import current_request_id
from perftrend.dashboard.pages import SENT_FORM, page, wants_json
from perftrend.errors import (
    PerftrendError,
    ServiceError,
    StoreError,
    StoreFullError,
    UsageError,
    explain,
)

LOG = logging.getLogger(__name__)

_RETRY_S = 5
_AWAY = "the database cannot be reached or is too slow; nothing is lost, try again in a moment"
_NOT_REACHED = "the database cannot be written or is too slow; try again in a moment"
_FULL = "the disk of the database is full; try again when it has free space"
_TITLES: Mapping[int, str] = {
    400: "This request cannot be fulfilled",
    401: "Sign in first",
    403: "You may not do this",
    404: "This does not exist",
    405: "This page does not support that",
    409: "Someone else changed this",
    413: "The request is too long",
    415: "The format of the request is not supported",
    422: "A value is missing or not valid",
    429: "Too many requests",
    500: "The dashboard has failed",
    502: "A service that the dashboard uses has failed",
    503: "Try again in a moment",
}
_READING = {"GET", "HEAD", "OPTIONS"}
_NOWHERE = "this page does not exist"

_AGAIN = "perftrend.form_again"
"""Key in the scope of the request that renders the page of a form again."""
_INVALID = {HTTPStatus.BAD_REQUEST, HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY}
_OF_THE_ROUTE = {"route", "endpoint", "path_params", SENT_FORM}
_PASSED_ON = {b"host", b"cookie", b"origin", b"sec-fetch-site"}
_WORDS = {
    "missing": "enter a value",
    "string_too_short": "enter a value",
    "too_short Value": "enter a value",
    "too_long Value": "enter at most {max_length} characters",
    "string_too_long": "enter at most {max_length} characters",
    "string_pattern_mismatch": "not in the expected form",
    "int_parsing": "enter a whole number",
    "int_from_float": "enter a whole number",
    "float_parsing": "enter a number",
    "finite_number": "enter a number",
    "greater_than": "enter more than {gt}",
    "greater_than_equal": "enter {ge} or more",
    "less_than": "enter less than {lt}",
    "less_than_equal": "enter {le} or less",
    "literal_error": "choose {expected}",
    "enum": "choose {expected}",
    "datetime_parsing": "enter a date such as 2026-03-02",
    "datetime_from_date_parsing": "enter a date such as 2026-03-02",
}
"""The words for errors of pydantic, whose own are those of a programmer."""


class FieldError(UsageError):
    """A value of a form that cannot be used.

    :param field: name of the field.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class DuplicateError(FieldError):
    """A value of a form that belongs to something else already."""


_STATUS: Mapping[type[PerftrendError], int] = {
    DuplicateError: HTTPStatus.CONFLICT,
    UsageError: HTTPStatus.BAD_REQUEST,
    ServiceError: HTTPStatus.BAD_GATEWAY,
    StoreError: HTTPStatus.SERVICE_UNAVAILABLE,
}


class Fault(BaseModel):
    """An error response."""

    error: str
    """Message in one line."""


FAULTS: Mapping[int | str, dict[str, Any]] = {
    "4XX": {"model": Fault, "description": "An error in the request."},
    "5XX": {"model": Fault, "description": "An error of the dashboard, or of a service that it uses."},
}
"""The error responses of all endpoints in the OpenAPI document."""


def error_page(
    request: Request, status: int, message: str, *, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error page or its JSON."""
    line = " ".join(message.split())
    return page(
        request,
        "error.html",
        Fault(error=line),
        title=_TITLES.get(status) or HTTPStatus(status).phrase,
        status=status,
        # Authentication is not repeated here, since it may be what has just failed.
        user=known_user(request),
        is_error=True,
        # Before the request is known to be the user's own, its values may be those of another site.
        typed=typed_values(request) if status >= HTTPStatus.INTERNAL_SERVER_ERROR else (),
        headers={**(headers or {}), "Cache-Control": "no-store"},
    )


def handle_errors(app: FastAPI) -> None:
    """Register the handlers of all errors in an application."""
    app.add_exception_handler(PerftrendError, _perftrend)
    app.add_exception_handler(SQLAlchemyError, _database)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_exception_handler(AnyHTTPException, _http)
    app.add_exception_handler(Exception, _fault)


async def _perftrend(request: Request, error: Exception) -> Response:
    if isinstance(error, StoreError) and isinstance(error.__cause__, SQLAlchemyError):
        return await run_in_threadpool(_database, request, error)
    status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 500)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        LOG.error("%s", explain(error))
    return await _form_or_error_page(request, status, error, str(error))


def _database(request: Request, error: Exception) -> Response:
    LOG.error("%s", explain(error))
    message = _AWAY
    if request.method not in _READING:
        full = isinstance(error, StoreFullError)
        message = f"your change was not saved: {_FULL if full else _NOT_REACHED}"
    return error_page(
        request, HTTPStatus.SERVICE_UNAVAILABLE, message, headers={"Retry-After": str(_RETRY_S)}
    )


async def _form_or_error_page(
    request: Request, status: int, error: Exception, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the page of the form that was sent, with the error; the error page if there is no form."""
    again = await form_again(request, status, error)
    if again is not None:
        return again
    return await run_in_threadpool(error_page, request, status, message, headers=headers)


async def _not_valid(request: Request, error: Exception) -> Response:
    message = _describe_first(error)
    if not wants_json(request):
        first, *_ = problems_of(error)
        message = f"{first.field}: {first.message}" if first.field else first.message
    return await _form_or_error_page(request, HTTPStatus.UNPROCESSABLE_ENTITY, error, message)


def _describe_first(error: Exception) -> str:
    first = error.errors()[0] if isinstance(error, RequestValidationError) else {}
    place = ".".join(str(part) for part in first.get("loc", ())[1:])
    reason = str(first.get("msg", "cannot be read")).removeprefix("Value error, ")
    return f"{place}: {reason}" if place else reason


async def _http(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, AnyHTTPException) else 500
    headers = error.headers if isinstance(error, AnyHTTPException) else None
    if status in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED):
        return Response(status_code=status, headers=headers)
    detail = str(error.detail) if isinstance(error, AnyHTTPException) else _our_fault()
    if status == HTTPStatus.NOT_FOUND and detail == HTTPStatus.NOT_FOUND.phrase:
        detail = _NOWHERE
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        headers = {**(headers or {}), "Allow": ", ".join(_find_allowed_methods(request))}
    return await _form_or_error_page(request, status, error, detail, headers)


def _find_allowed_methods(request: Request) -> Iterator[str]:
    """Yield the methods that a path supports; the error itself lists only those of one route."""
    for method in HTTPMethod:
        # HEAD is supported wherever GET is.
        equivalent = HTTPMethod.GET if method is HTTPMethod.HEAD else method
        scope = {**request.scope, "method": equivalent.value}
        if any(route.matches(scope)[0] is Match.FULL for route in request.app.routes):
            yield method


def _fault(request: Request, error: Exception) -> Response:  # noqa: ARG001 - the server logs it
    return error_page(request, HTTPStatus.INTERNAL_SERVER_ERROR, _our_fault())


def _our_fault() -> str:
    return f"internal error of the dashboard; its log has the details of request {current_request_id()}"


@contextmanager
def in_field(field: str) -> Iterator[None]:
    """Attribute errors in what a user entered to a field of the form."""
    try:
        yield
    except FieldError:
        raise
    except UsageError as error:
        raise FieldError(field, str(error)) from error


async def form_again(request: Request, status: int, error: Exception) -> Response | None:
    """Return the page of the form that was sent, with the error; None if no page contains the form."""
    form = _submitted(request)
    if status not in _INVALID or form is None or _AGAIN in request.scope or wants_json(request):
        return None
    problems = problems_of(error)
    for address in dict.fromkeys(_addresses(request, form, problems)):
        html = await _get(request, address)
        if html is None:
            continue
        is_get = form.method == "get"
        shown = await run_in_threadpool(
            show_problems, html, form, problems, address="" if is_get else address, needs_field=is_get
        )
        if shown is not None:
            return HTMLResponse(shown, status, {"Vary": "Accept, Cookie", "Cache-Control": "no-store"})
    return None


def typed_values(request: Request) -> list[tuple[str, str]]:
    """Return the names and values of the form of a request that a user may have typed."""
    form: list[tuple[str, str]] = request.scope.get(SENT_FORM, [])
    return [(name, value) for name, value in form if value.strip() and name not in {FIELD, PAGE}]


def problems_of(error: Exception) -> list[FormProblem]:
    """Return what is wrong with a form, in words for its user."""
    if isinstance(error, RequestValidationError):
        return [_problem(each) for each in error.errors()]
    if isinstance(error, FieldError):
        return [FormProblem(error.field, str(error).removeprefix(f"{error.field}: "))]
    return [FormProblem("", str(error.detail) if isinstance(error, HTTPException) else str(error))]


def _problem(error: Mapping[str, Any]) -> FormProblem:
    place = ".".join(str(part) for part in error.get("loc", ())[1:2])
    context = error.get("ctx") or {}
    if error.get("type") == "too_short" and context.get("field_type") != "Value":
        # These are boxes, none of which is the wrong one.
        return FormProblem("", f"select at least one of the {place}")
    return FormProblem(place, _describe(error))


def _describe(error: Mapping[str, Any]) -> str:
    context = error.get("ctx") or {}
    words = _WORDS.get(f"{error.get('type')} {context.get('field_type', '')}".rstrip())
    if words:
        return words.format_map({name: _whole(value) for name, value in context.items()})
    return str(error.get("msg", "cannot be read")).removeprefix("Value error, ")


def _whole(value: object) -> object:
    """Return a whole number without a decimal point."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _submitted(request: Request) -> SubmittedForm | None:
    """Return the form of a request; None if it cannot be that of a form."""
    path = request.url.path
    if request.method == "GET":
        query = parse_qsl(request.url.query, keep_blank_values=True)
        return SubmittedForm("get", path, query) if query else None
    sent: list[tuple[str, str]] | None = request.scope.get(SENT_FORM)
    return None if sent is None else SubmittedForm("post", path, sent)


def _addresses(request: Request, form: SubmittedForm, problems: Sequence[FormProblem]) -> Iterator[str]:
    """Yield the addresses of the pages that may contain a form."""
    if form.method == "get":
        wrong = {problem.field for problem in problems}
        rest = [(name, value) for name, value in form.values or () if name not in wrong]
        yield f"{form.path}?{urlencode(rest)}"
        return
    yield dict(form.values or ()).get(PAGE, "")
    yield _referrer(request)
    query = f"?{request.url.query}" if request.url.query else ""
    path = form.path
    while path:
        yield path + query
        path = path.rpartition("/")[0]


def _referrer(request: Request) -> str:
    """Return the page of the dashboard that a browser came from; empty: unknown."""
    try:
        came = urlsplit(request.headers.get("referer", ""))
    except ValueError:
        return ""
    if came.netloc.lower() != request.headers.get("host", "").lower():
        return ""
    return came.path + (f"?{came.query}" if came.query else "")


async def _get(request: Request, address: str) -> str | None:
    """Return a page as the user of a request sees it; None if it cannot be shown."""
    path, _, query = address.partition("?")
    if not path.startswith("/"):
        return None
    answer = _Collected()
    with suppress(AnyHTTPException):
        await request.app.router(_scope(request.scope, path, query), _empty_body, answer.send)
    return answer.html


class _Collected:
    """A response that is read instead of sent."""

    def __init__(self) -> None:
        self._is_page = False
        self._body = b""

    async def send(self, message: Message) -> None:
        """Read a part of the response."""
        if message["type"] == "http.response.start":
            kind = dict(message.get("headers", ())).get(b"content-type", b"")
            self._is_page = message["status"] == HTTPStatus.OK and kind.startswith(b"text/html")
        elif self._is_page:
            self._body += message.get("body", b"")

    @property
    def html(self) -> str | None:
        """The page; None if it is an error or something else."""
        return self._body.decode() if self._is_page else None


def _scope(came: Scope, path: str, query: str) -> dict[str, Any]:
    headers = [(name, value) for name, value in came["headers"] if name in _PASSED_ON]
    rest = {name: value for name, value in came.items() if name not in _OF_THE_ROUTE}
    return {
        **rest,
        "method": "GET",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [*headers, (b"accept", b"text/html")],
        "state": dict(came.get("state", {})),
        _AGAIN: True,
    }


async def _empty_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}
