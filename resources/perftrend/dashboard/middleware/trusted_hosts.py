"""Rejection of requests for unknown host names.

This prevents DNS rebinding: another site can resolve its own name to the address of the dashboard, and a
browser would then treat that site's pages as the same origin. It also prevents a forged Host header from
getting into the addresses of a sign-in: they contain the host name of the request if ``dashboard.url`` is not
set.
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from perftrend.dashboard.middleware.answers import error_response
from perftrend.settings import DashboardSettings

_HERE = ("localhost", "127.0.0.1", "::1")
_ANY = ("0.0.0.0", "::", "")  # noqa: S104 - wildcard addresses, which clients do not send as a host name


def allowed_hosts(settings: DashboardSettings) -> frozenset[str]:
    """Return the host names that the dashboard accepts, in lower case."""
    of_url = urlsplit(settings.url).hostname if settings.url else None
    host = settings.address.rpartition(":")[0].strip("[]")
    named = (*settings.hosts, of_url or "", "" if host in _ANY else host)
    return frozenset(name.lower() for name in (*_HERE, *named) if name)


class TrustedHosts:
    """Middleware that accepts only requests for known hosts."""

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


def _host_of(scope: Scope) -> str:
    """Return the host name of a request without its port; empty if it is missing, repeated or invalid."""
    named = Headers(scope=scope).getlist("host")
    if len(named) != 1:
        return ""
    try:
        return (urlsplit(f"//{named[0]}").hostname or "").lower()
    except ValueError:
        return ""
