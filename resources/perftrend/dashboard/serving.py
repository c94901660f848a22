"""Serves an application by HTTP until somebody ends the process."""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from types import FrameType

import uvicorn
from fastapi import FastAPI
from typing_extensions import override

from perftrend.dashboard.front.patience import patient
from perftrend.dashboard.users import can_sign_in
from perftrend.errors import EXIT_PASS, ServiceError, SettingsError
from perftrend.settings import DashboardSettings

LOG = logging.getLogger(__name__)

FAREWELL_S = 3.0
"""How much longer than requests may take everything else that is under way when it is stopped."""
_LARGEST_PORT = 65535
_BACKLOG = 2048
_SWITCH_S = 0.0005
"""For how long work beside the requests may hold Python's lock while a request waits for it."""
_REST_S = 15
"""How long a browser's connection may rest between two requests."""


@contextmanager
def bound(settings: DashboardSettings) -> Iterator[socket.socket]:
    """Give a socket that listens where the dashboard is served.

    :raises SettingsError: if there is no such port, or others could reach it although nobody can sign in and
        the settings do not say that everybody may read.
    :raises ServiceError: if nothing can be served there.
    """
    address = settings.address
    host, _, port = address.rpartition(":")
    if int(port) > _LARGEST_PORT:
        raise SettingsError(f"dashboard.address is {address}; its port should be from 0 to {_LARGEST_PORT}")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        if not (settings.public or can_sign_in(settings) or ip_address(place[0]).is_loopback):
            raise SettingsError(
                f"dashboard.address is {address}; nobody can sign in, so it is served on this machine only: "
                "set dashboard.public to let everybody read who reaches it, dashboard.oidc_issuer, or "
                "dashboard.user_header and dashboard.proxies, to let people sign in, or serve it at 127.0.0.1"
            )
        opened = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _refused(address, error) from None
    with opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind(place)
            opened.listen(_BACKLOG)
        except OSError as error:
            raise _refused(address, error) from None
        yield opened


def url_of(listening: socket.socket) -> str:
    """Return the address at which a browser on this machine finds a socket."""
    host, port = listening.getsockname()[:2]
    if ip_address(host).is_unspecified:
        host = "localhost"
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def serve(app: FastAPI, listening: socket.socket, settings: DashboardSettings) -> None:
    """Serve until the process is told to end; then finish what is under way.

    The process ends :data:`FAREWELL_S` after the time that requests have to finish, whatever then waits, such
    as for a database that hangs: Python itself would wait for each thread.

    :raises KeyboardInterrupt: when it was told so by SIGINT, or by SIGTERM where that is one, too.
    """
    config = uvicorn.Config(
        app,
        http=patient(settings.request_timeout_s),
        ws="none",
        lifespan="on",
        log_config=None,
        # We write our own, without what stands behind "?".
        access_log=False,
        server_header=False,
        # Who the client is, is told by dashboard.proxies alone.
        proxy_headers=False,
        timeout_keep_alive=_REST_S,
        limit_concurrency=settings.maximum_connections,
        timeout_graceful_shutdown=round(settings.stop_timeout_s),
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    sys.setswitchinterval(_SWITCH_S)
    _Server(config, limit_s=settings.stop_timeout_s + FAREWELL_S).run(sockets=[listening])


class _Server(uvicorn.Server):
    """Ends in time.

    :param limit_s: how long the process may live after it is told to end.
    """

    def __init__(self, config: uvicorn.Config, *, limit_s: float) -> None:
        super().__init__(config)
        self._limit_s = limit_s

    @override
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if not self.should_exit:
            last = threading.Timer(self._limit_s, _end)
            last.daemon = True
            last.start()
        super().handle_exit(sig, frame)


def _end() -> None:
    """End the process; what enters the store enters it whole, so that nothing is left by half."""
    waiting = {each.name for each in threading.enumerate() if not each.daemon}
    LOG.warning("stopped without waiting any longer for: %s", ", ".join(sorted(waiting)))
    os._exit(EXIT_PASS)


def _refused(address: str, error: OSError) -> ServiceError:
    return ServiceError(
        f"dashboard.address is {address}; nothing can be served there ({error.strerror or error}); "
        "choose another one: --address 127.0.0.1:0 takes a free port"
    )
