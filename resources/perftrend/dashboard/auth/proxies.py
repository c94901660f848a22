"""Authentication by a reverse proxy in front of the dashboard.

The proxy passes the user in headers, which any client can forge. The headers are therefore only accepted from
the addresses of trusted proxies. In other requests they are ignored, counted and logged.
"""

from __future__ import annotations

import logging

from prometheus_client import Counter
from starlette.requests import Request

from perftrend.dashboard.auth.roles import Person, is_name
from perftrend.dashboard.middleware.clients import Clients
from perftrend.settings import DashboardSettings

LOG = logging.getLogger(__name__)


class Proxies:
    """Reads the user from the headers of trusted proxies.

    :param ignored: counts the requests whose header is ignored.
    :raises SettingsError: if a proxy is not a valid address or network.
    """

    def __init__(self, settings: DashboardSettings, ignored: Counter) -> None:
        self._clients = Clients(settings.proxies)
        self._user_header = settings.user_header
        self._groups_header = settings.groups_header
        self._ignored = ignored

    def person(self, request: Request) -> Person | None:
        """Return the user that a trusted proxy passes with a request, or None."""
        names = _values(request, self._user_header) if self._user_header else []
        if not any(names):
            return None
        reason = self._doubt(request, names)
        if reason:
            self._ignored.inc()
            peer = request.client.host if request.client else "an unknown client"
            LOG.warning("header %s from %s is ignored: %s", self._user_header, peer, reason)
            return None
        return Person(names[0], self._groups(request))

    def _doubt(self, request: Request, names: list[str]) -> str:
        """Return the reason why the header is ignored; empty if it is accepted."""
        if not self._clients.are_behind(request.scope):
            return "it does not come from one of dashboard.proxies"
        if len(names) > 1:
            # A proxy that appends the header instead of replacing it forwards what the client sent.
            return "it occurs several times; configure the proxy to replace it"
        return "" if is_name(names[0]) else "it is not a valid user name"

    def _groups(self, request: Request) -> tuple[str, ...]:
        lines = _values(request, self._groups_header) if self._groups_header else []
        if len(lines) != 1:
            return ()
        return tuple(group for word in lines[0].split(",") if (group := word.strip()))


def _values(request: Request, header: str) -> list[str]:
    """Return the values of all headers of a name; invalid UTF-8 becomes characters that no user name has."""
    return [
        value.encode("latin-1").decode("utf-8", errors="surrogateescape").strip()
        for value in request.headers.getlist(header)
    ]
