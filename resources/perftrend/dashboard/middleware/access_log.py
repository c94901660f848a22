"""Access log, metrics and ids of all requests, and HEAD for every path that supports GET.

Every request is a line in the log and a count in ``/metrics``. A line contains the path without the query
string and no headers, so it cannot contain tokens or credentials.

The response to a request, the log and the page of an internal error have the id of the request in common. A
trusted proxy may choose it, so that the log of the proxy has the same one. Any other client could forge an id
to hide its requests among others, so its header is ignored.
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from contextvars import ContextVar
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from perftrend.dashboard.metrics import Metrics
from perftrend.dashboard.middleware.rate_limit import Clients

LOG = logging.getLogger(__name__)

_LONGEST = 500
_QUIET = ("/healthz", "/livez", "/metrics")
"""Paths that are polled every few seconds; successful requests to them are details."""
_ID_HEADER = "X-Request-ID"
_VALID_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_RANDOM_BYTES = 16
_CURRENT: ContextVar[str] = ContextVar("request_id", default="")


class AccessLog:
    """Middleware that records requests, and gives each an id.

    It sets ``scope["perftrend.client"]`` to the client's address.
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics, clients: Clients) -> None:
        self._app = app
        self._metrics = metrics
        self._clients = clients

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        scope["perftrend.client"] = self._clients.of(scope)
        request_id = _begin_request(scope, self._clients)
        began = time.perf_counter()
        # 499: the connection was aborted before a response, by the server or by the client.
        status, sent = 499, 0

        async def recorded(message: Message) -> None:
            nonlocal status, sent
            status = message.get("status", status)
            sent += len(message.get("body", b""))
            if message["type"] == "http.response.start":
                named = (_ID_HEADER.lower().encode(), request_id.encode())
                message = {**message, "headers": [*message.get("headers", ()), named]}
            await send(message)

        try:
            await self._app(scope, receive, recorded)
        finally:
            self._record(scope, request_id, status, sent, time.perf_counter() - began)

    def _record(self, scope: Scope, request_id: str, status: int, sent: int, duration_s: float) -> None:
        method = scope["method"]
        route = getattr(scope.get("route"), "path", "none")
        self._metrics.count(method, route, status, duration_s)
        is_detail = scope["path"] in _QUIET and status < HTTPStatus.BAD_REQUEST
        fields = {
            "request_id": request_id,
            "method": method[:_LONGEST],
            "path": scope["path"][:_LONGEST],
            "status": status,
            "duration_s": round(duration_s, 4),
            "bytes": sent,
            "client": scope["perftrend.client"],
        }
        LOG.log(logging.DEBUG if is_detail else logging.INFO, "request", extra={"fields": fields})


class HeadRequests:
    """Middleware that serves HEAD as GET and drops the body; inner layers see the method GET."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def bodiless(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        # Changed in place instead of copied: the access log reads the route from this scope.
        scope["method"] = "GET"
        try:
            await self._app(scope, receive, bodiless)
        finally:
            scope["method"] = "HEAD"


def _begin_request(scope: Scope, clients: Clients) -> str:
    """Choose the id of a request, and make it the current one.

    It remains the current one, because the server logs errors after the application has ended. Each request
    has a task, and therefore a context, of its own.
    """
    sent = Headers(scope=scope).getlist(_ID_HEADER)
    is_valid = len(sent) == 1 and _VALID_ID.fullmatch(sent[0]) and clients.are_behind(scope)
    request_id = sent[0] if is_valid else secrets.token_hex(_RANDOM_BYTES)
    _CURRENT.set(request_id)
    return request_id


def current_request_id() -> str:
    """Return the id of the request that is being answered; empty outside of requests."""
    return _CURRENT.get()
