"""Records every request: a line in the log, and numbers for ``/metrics``.

A line has the path without what stands behind ``?``, and no header: neither tokens nor what people sign in
with can be in it.
"""

from __future__ import annotations

import logging
import time
from http import HTTPStatus

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from perftrend.dashboard.front.clients import Clients
from perftrend.dashboard.metrics import Metrics

LOG = logging.getLogger(__name__)

_LONGEST = 500
_QUIET = ("/healthz", "/metrics")
"""What is asked every few seconds, and would fill the log while all is well."""


class Recorded:
    """Records requests; further in, ``scope["perftrend.client"]`` is the address of the client."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics, clients: Clients) -> None:
        self._app = app
        self._metrics = metrics
        self._clients = clients

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        scope["perftrend.client"] = self._clients.of(scope)
        began = time.perf_counter()
        # What ends without an answer was cut off, by us or by the client.
        status, sent = 499, 0

        async def recorded(message: Message) -> None:
            nonlocal status, sent
            status = message.get("status", status)
            sent += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, recorded)
        finally:
            self._record(scope, status, sent, time.perf_counter() - began)

    def _record(self, scope: Scope, status: int, sent: int, duration_s: float) -> None:
        method = scope["method"]
        route = getattr(scope.get("route"), "path", "none")
        self._metrics.count(method, route, status, duration_s)
        if scope["path"] in _QUIET and status < HTTPStatus.BAD_REQUEST:
            return
        told = {
            "method": method[:_LONGEST],
            "path": scope["path"][:_LONGEST],
            "status": status,
            "duration_s": round(duration_s, 4),
            "bytes": sent,
            "client": scope["perftrend.client"],
        }
        LOG.info("request", extra={"told": told})
