"""Counting of requests in progress, so that background work can yield to them."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from perftrend.dashboard.background_priority import Traffic


class RequestPriority:
    """Middleware that gives requests priority over background work."""

    def __init__(self, app: ASGIApp, *, traffic: Traffic) -> None:
        self._app = app
        self._traffic = traffic

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        with self._traffic.request():
            await self._app(scope, receive, send)
