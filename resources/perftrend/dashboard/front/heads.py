"""Answers HEAD wherever GET is answered: as GET would be, without the body."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Headed:
    """Asks for the whole answer, and sends the head of it; further in, the method is GET."""

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

        # Not a copy: who records the request looks for its route here.
        scope["method"] = "GET"
        try:
            await self._app(scope, receive, bodiless)
        finally:
            scope["method"] = "HEAD"
