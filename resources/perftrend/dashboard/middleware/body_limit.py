"""Limit of the length of request bodies.

A request is rejected immediately if its Content-Length exceeds the limit, otherwise once the received bytes
exceed it.
"""

from __future__ import annotations

from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from perftrend.dashboard.middleware.answers import error_response

_CLOSE = {"Connection": "close"}
"""Closes the connection instead of reading the rest of a rejected body."""


class BodyLimit:
    """Middleware that rejects request bodies longer than ``maximum_bytes``."""

    def __init__(self, app: ASGIApp, *, maximum_bytes: int) -> None:
        self._app = app
        self._maximum_bytes = maximum_bytes
        self._message = f"the request is too long; at most {maximum_bytes} bytes are allowed"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        headers = Headers(scope=scope)
        content_length = headers.get("content-length", "0")
        if not content_length.isdecimal() or int(content_length) > self._maximum_bytes:
            answer = error_response(scope, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, self._message, headers=_CLOSE)
            await answer(scope, receive, send)
            return
        received, is_open = 0, "transfer-encoding" in headers

        async def bounded() -> Message:
            nonlocal received, is_open
            message = await receive()
            received += len(message.get("body", b""))
            is_open = message.get("more_body", False)
            if received > self._maximum_bytes:
                raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, self._message, headers=_CLOSE)
            return message

        async def closing(message: Message) -> None:
            if message["type"] == "http.response.start" and is_open:
                MutableHeaders(scope=message).update(_CLOSE)
            await send(message)

        await self._app(scope, bounded, closing)
