"""Renewal of session cookies with responses, so that a session only ends early if it is idle."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from perftrend.dashboard.auth.authentication import FRESH, Authenticator


class RenewedSessions:
    """Middleware that adds renewed cookies, since endpoints may return any response object."""

    def __init__(self, app: ASGIApp, gate: Authenticator) -> None:
        self._app = app
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""

        async def sending(message: Message) -> None:
            fresh = scope.get(FRESH)
            if message["type"] == "http.response.start" and fresh:
                self._add(MutableHeaders(scope=message), fresh)
            await send(message)

        await self._app(scope, receive, sending if scope["type"] == "http" else send)

    def _add(self, headers: MutableHeaders, fresh: str) -> None:
        named = f"{self._gate.session_cookie}="
        if any(value.startswith(named) for value in headers.getlist("set-cookie")):
            # This response signs the user in or out.
            return
        response = Response()
        self._gate.set_cookie(response, self._gate.session_cookie, fresh)
        headers.append("set-cookie", response.headers["set-cookie"])
