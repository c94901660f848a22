"""The HTTP server of an application, which runs until the process is stopped.

It disconnects slow clients, and writes the log as one line of JSON for each event.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from ipaddress import ip_address
from types import FrameType
from typing import TextIO

import h11
import uvicorn
from fastapi import FastAPI
from typing_extensions import override
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from perftrend.dashboard.auth import can_sign_in
from perftrend.dashboard.middleware.access_log import current_request_id
from perftrend.errors import EXIT_PASS, ServiceError, SettingsError
from perftrend.settings import DashboardSettings

LOG = logging.getLogger(__name__)

FAREWELL_S = 3.0
"""Additional time after ``stop_timeout_s`` for everything other than requests to finish."""
LEAST_BYTES = 16384
"""Bytes of a response that a client must read within the timeout."""
_LARGEST_PORT = 65535
_BACKLOG = 2048
_SWITCH_S = 0.0005
"""Maximum time that a background thread holds the GIL while a request waits for it."""
_REST_S = 15
"""Maximum idle time of a connection between two requests."""
_NAMES = ("perftrend", "uvicorn")


@contextmanager
def bound(settings: DashboardSettings) -> Iterator[socket.socket]:
    """Provide a socket that listens on the address of the dashboard.

    :raises SettingsError: if the port is not valid, or if the address is not a loopback address while users
        cannot sign in and the settings do not make the dashboard public.
    :raises ServiceError: if the address cannot be resolved or bound.
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
                f"dashboard.address is {address}, but users cannot sign in: to let everyone who reaches it "
                "read, set dashboard.public; to let users sign in, set dashboard.oidc_issuer, or "
                "dashboard.user_header and dashboard.proxies; or serve it at 127.0.0.1"
            )
        opened = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _listen_error(address, error) from None
    with opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind(place)
            opened.listen(_BACKLOG)
        except OSError as error:
            raise _listen_error(address, error) from None
        yield opened


def url_of(listening: socket.socket) -> str:
    """Return the URL of a listening socket for a browser on this machine."""
    host, port = listening.getsockname()[:2]
    if ip_address(host).is_unspecified:
        host = "localhost"
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def serve(app: FastAPI, listening: socket.socket, settings: DashboardSettings) -> None:
    """Serve until the process is stopped; then finish the requests in progress.

    The process exits at the latest ``stop_timeout_s`` plus :data:`FAREWELL_S` after the signal, even if
    threads are still blocked, for example by a database that does not respond. Python itself would wait for
    each thread.

    :raises KeyboardInterrupt: after SIGINT, or after SIGTERM if its handler raises KeyboardInterrupt.
    """
    config = uvicorn.Config(
        app,
        http=slow_client_protocol(settings.request_timeout_s),
        ws="none",
        lifespan="on",
        log_config=None,
        # The dashboard writes its own access log, without query strings.
        access_log=False,
        server_header=False,
        # Only dashboard.proxies determines which proxies may set the client's address.
        proxy_headers=False,
        timeout_keep_alive=_REST_S,
        limit_concurrency=settings.maximum_connections,
        timeout_graceful_shutdown=round(settings.stop_timeout_s),
    )
    sys.setswitchinterval(_SWITCH_S)
    _DashboardServer(config, limit_s=settings.stop_timeout_s + FAREWELL_S).run(sockets=[listening])


class _DashboardServer(uvicorn.Server):
    """A server that exits within a time limit.

    :param limit_s: maximum time from the first signal to the exit of the process.
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
    """Exit immediately; this is safe because writes to the store are transactions."""
    waiting = {each.name for each in threading.enumerate() if not each.daemon}
    LOG.warning("stopped without waiting any longer for: %s", ", ".join(sorted(waiting)))
    os._exit(EXIT_PASS)


def _listen_error(address: str, error: OSError) -> ServiceError:
    return ServiceError(
        f"dashboard.address is {address}; the dashboard cannot listen there ({error.strerror or error}); "
        "choose another one: --address 127.0.0.1:0 uses a free port"
    )


def slow_client_protocol(timeout_s: float) -> type[H11Protocol]:
    """Return a connection protocol that aborts slow connections.

    uvicorn only limits how long a connection may be idle between two requests. A client that sends its
    headers byte by byte would occupy a connection for ever, and a thousand such clients all connections.

    :param timeout_s: time from the first byte of a request until the request is complete; for the first
        request of a connection, time from opening the connection. While a response waits to be sent, the
        client must read at least :data:`LEAST_BYTES` of it in each period of this length.
    """

    class SlowClientProtocol(_TimedProtocol):
        _timeout_s = timeout_s

    return SlowClientProtocol


class _TimedProtocol(H11Protocol):
    _timeout_s = 30.0

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, object],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._request: asyncio.TimerHandle | None = None
        self._answer: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # a TCP one
        super().connection_made(transport)
        self._expect_request()

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._request = _cancel(self._request)
        elif self._request is None:
            self._expect_request()

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_read()

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        self._answer = _cancel(self._answer)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._request = _cancel(self._request)
        self._answer = _cancel(self._answer)
        super().connection_lost(exc)

    def _expect_request(self) -> None:
        self._request = self.loop.call_later(
            self._timeout_s, self._disconnect, "did not send a whole request"
        )

    def _expect_read(self) -> None:
        waiting = self.transport.get_write_buffer_size()
        self._answer = self.loop.call_later(self._timeout_s, self._check_read, waiting)

    def _check_read(self, before: int) -> None:
        if before - self.transport.get_write_buffer_size() < LEAST_BYTES:
            self._disconnect("did not receive its response")
        else:
            self._expect_read()

    def _disconnect(self, reason: str) -> None:
        client = self.client[0] if self.client else ""
        fields = {"client": client}
        LOG.warning(
            "a client was disconnected: in %g s it %s", self._timeout_s, reason, extra={"fields": fields}
        )
        self.transport.abort()


def _cancel(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Cancel a timer and return None, the value of a stopped timer."""
    if timer is not None:
        timer.cancel()
    return None


class JsonLines(logging.Formatter):
    """Formats a record as a JSON object in one line."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": " ".join(record.getMessage().split()),
        }
        if request_id := current_request_id():
            entry["request_id"] = request_id
        entry |= getattr(record, "fields", {})
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def log_to(stream: TextIO, level: str = "info") -> None:
    """Write the log of the whole process to a stream.

    :param level: of the least severe events that are written.
    """
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    for name in _NAMES:
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
        logger.setLevel(level.upper())
    # Its lines about starting and stopping are not for users of the dashboard.
    uvicorn_log = logging.getLogger("uvicorn")
    uvicorn_log.setLevel(max(uvicorn_log.level, logging.WARNING))
