"""Headers that tell browsers what our pages may do: load and run what comes from here, and nothing else.

Neither scripts nor styles may stand in a page itself, so that what gets into a page by a mistake of ours is
text and nothing more. The one exception is the empty style element, by its hash: plotly makes one and fills
it by script, which is allowed. A page may answer with another policy; one that draws by WebGL has to, since
plotly makes functions from text there.
"""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_EMPTY = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
POLICY = "; ".join(
    (
        "default-src 'self'",
        f"style-src 'self' {_EMPTY}",
        "img-src 'self' data: blob:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_A_YEAR_S = 31536000


class Guarded:
    """Adds the headers to every answer.

    :param secure: whether people come by HTTPS, and should never come by anything else again.
    """

    def __init__(self, app: ASGIApp, *, secure: bool) -> None:
        self._app = app
        self._headers = dict(_HEADERS)
        if secure:
            self._headers["Strict-Transport-Security"] = f"max-age={_A_YEAR_S}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, guarded)
