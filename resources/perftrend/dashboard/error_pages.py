"""Error pages: a status and a one-line message, for users and programs.

A program receives ``{"error": "…"}``. Confidential details, such as the location of the database, are only
written to the log.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from http import HTTPMethod, HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.routing import Match

from perftrend.dashboard.auth import known_user
from perftrend.dashboard.form_errors import DuplicateError, form_again, problems_of, typed_values
from perftrend.dashboard.middleware.access_log import current_request_id
from perftrend.dashboard.pages import page, wants_json
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
_STATUS: Mapping[type[PerftrendError], int] = {
    DuplicateError: HTTPStatus.CONFLICT,
    UsageError: HTTPStatus.BAD_REQUEST,
    ServiceError: HTTPStatus.BAD_GATEWAY,
    StoreError: HTTPStatus.SERVICE_UNAVAILABLE,
}
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
    app.add_exception_handler(HTTPException, _http)
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
    status = error.status_code if isinstance(error, HTTPException) else 500
    headers = error.headers if isinstance(error, HTTPException) else None
    if status in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED):
        return Response(status_code=status, headers=headers)
    detail = str(error.detail) if isinstance(error, HTTPException) else _our_fault()
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
