"""HEAD for every path that supports GET: the same response without the body."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send


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
