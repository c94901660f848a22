"""Serves health and metrics by HTTP: ``/healthz`` and ``/metrics``."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

from typing_extensions import override

from perftrend.errors import ServiceError, SettingsError

_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_JSON_TYPE = "application/json"
_TIMEOUT_S = 10.0
_LARGEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the listener does its work."""

    is_connected: bool
    seconds_behind: float
    """Since all comments were known for the last time."""
    problems: tuple[str, ...]
    """What is wrong, a line each; none: all is well."""

    @property
    def json(self) -> bytes:
        """As a page."""
        told = {
            "healthy": not self.problems,
            "connected": self.is_connected,
            "seconds_behind": round(self.seconds_behind, 1),
            "problems": self.problems,
        }
        return json.dumps(told).encode() + b"\n"


Page = tuple[HTTPStatus, str, bytes]


class _Handler(BaseHTTPRequestHandler):
    """Answers one request from the pages."""

    timeout = _TIMEOUT_S
    pages: ClassVar[Mapping[str, Callable[[], Page]]] = {}

    def do_GET(self) -> None:
        """Send a page."""
        make = self.pages.get(self.path.partition("?")[0])
        status, kind, body = make() if make else (HTTPStatus.NOT_FOUND, "text/plain", b"no such page\n")
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: whoever asks every few seconds would fill the log."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of somebody who went away."""


@contextmanager
def served(address: str, *, health: Callable[[], Health], metrics: Callable[[], bytes]) -> Iterator[str]:
    """Serve the pages as long as the block runs; give the address that it really is.

    :param address: ``host:port``; port 0 takes a free one.
    :raises SettingsError: if there is no such port.
    :raises ServiceError: if nothing can be served there.
    """
    host, _, port = address.rpartition(":")
    if int(port) > _LARGEST_PORT:
        raise SettingsError(f"listener.address is {address}; its port should be from 0 to {_LARGEST_PORT}")

    def healthz() -> Page:
        told = health()
        status = HTTPStatus.SERVICE_UNAVAILABLE if told.problems else HTTPStatus.OK
        return status, _JSON_TYPE, told.json

    pages = {"/healthz": healthz, "/metrics": lambda: (HTTPStatus.OK, _METRICS_TYPE, metrics())}
    handler = type("_BoundHandler", (_Handler,), {"pages": pages})
    try:
        server = _Server((host.strip("[]"), int(port)), handler)
    except OSError as error:
        raise ServiceError(
            f"listener.address is {address}; health cannot be served there ({error.strerror or error}); "
            "choose another one"
        ) from None
    thread = threading.Thread(target=server.serve_forever, name="health", daemon=True)
    thread.start()
    try:
        yield f"{host}:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
