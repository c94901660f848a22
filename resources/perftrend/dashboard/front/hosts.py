"""Refuses requests for the names of other hosts.

A page elsewhere can let its own name point at us, and would then be taken by the browser for ours. And the
name that a request asks for stands in no link that we make.
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from perftrend.dashboard.front.answers import refused
from perftrend.settings import DashboardSettings

_HERE = ("localhost", "127.0.0.1", "::1")
_ANY = ("0.0.0.0", "::", "")  # noqa: S104 - names that nobody asks for


def known_hosts(settings: DashboardSettings) -> frozenset[str]:
    """Return the names that a dashboard answers to."""
    of_url = urlsplit(settings.url).hostname if settings.url else None
    told = settings.address.rpartition(":")[0].strip("[]")
    named = (*settings.hosts, of_url or "", "" if told in _ANY else told)
    return frozenset(name.lower() for name in (*_HERE, *named) if name)


class Hosted:
    """Lets requests through for the hosts that are known."""

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str]) -> None:
        self._app = app
        self._hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if _asked(scope) in self._hosts:
            await self._app(scope, receive, send)
        else:
            message = "the dashboard does not serve this host name; add it to dashboard.hosts"
            await refused(scope, HTTPStatus.MISDIRECTED_REQUEST, message)(scope, receive, send)


def _asked(scope: Scope) -> str:
    """Return the host that a request asks for, without its port; empty where that cannot be told."""
    named = Headers(scope=scope).getlist("host")
    if len(named) != 1:
        return ""
    try:
        return (urlsplit(f"//{named[0]}").hostname or "").lower()
    except ValueError:
        return ""
