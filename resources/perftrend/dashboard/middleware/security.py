"""Protection against other sites: security headers, and rejection of unknown host names.

By the headers, pages may only load and run resources from this origin. Inline scripts and styles are
forbidden, so markup that is injected into a page cannot run. The one exception is the empty style element, by
its hash: plotly creates one and fills it by script, which is allowed. A page may set another policy. Pages
that draw with WebGL have to, since plotly compiles functions from text there.
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from perftrend.dashboard.middleware.rate_limit import error_response
from perftrend.settings import DashboardSettings

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
_HERE = ("localhost", "127.0.0.1", "::1")
_ANY = ("0.0.0.0", "::", "")  # noqa: S104 - wildcard addresses, which clients do not send as a host name


class SecurityHeaders:
    """Middleware that adds the security headers to every response.

    :param secure: whether users connect by HTTPS; if so, HSTS restricts browsers to HTTPS from then on.
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


class TrustedHosts:
    """Middleware that accepts only requests for known hosts.

    This prevents DNS rebinding: another site can resolve its own name to the address of the dashboard,
    and a browser would then treat that site's pages as the same origin. It also prevents a forged Host
    header from getting into the addresses of a sign-in: they contain the host name of the request if
    ``dashboard.url`` is not set.
    """

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str]) -> None:
        self._app = app
        self._hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if _host_of(scope) in self._hosts:
            await self._app(scope, receive, send)
        else:
            message = "the dashboard does not serve this host name; add it to dashboard.hosts"
            await error_response(scope, HTTPStatus.MISDIRECTED_REQUEST, message)(scope, receive, send)


def allowed_hosts(settings: DashboardSettings) -> frozenset[str]:
    """Return the host names that the dashboard accepts, in lower case."""
    of_url = urlsplit(settings.url).hostname if settings.url else None
    host = settings.address.rpartition(":")[0].strip("[]")
    named = (*settings.hosts, of_url or "", "" if host in _ANY else host)
    return frozenset(name.lower() for name in (*_HERE, *named) if name)


def _host_of(scope: Scope) -> str:
    """Return the host name of a request without its port; empty if it is missing, repeated or invalid."""
    named = Headers(scope=scope).getlist("host")
    if len(named) != 1:
        return ""
    try:
        return (urlsplit(f"//{named[0]}").hostname or "").lower()
    except ValueError:
        return ""
