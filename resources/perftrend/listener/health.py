"""Health and metrics of the listener, and their HTTP server: ``/healthz`` and ``/metrics``."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector, generate_latest
from typing_extensions import override

from perftrend.errors import ServiceError, SettingsError

_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_JSON_TYPE = "application/json"
_TIMEOUT_S = 10.0
_LARGEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Health:
    """The health of the listener."""

    is_connected: bool
    seconds_behind: float
    """Time since all comments were last read."""
    problems: tuple[str, ...]
    """Descriptions of the problems, a line each; empty if the listener is healthy."""
    is_standby: bool = False
    """Whether another listener serves the requests."""

    @property
    def json(self) -> bytes:
        """The response body of ``/healthz``."""
        content = {
            "healthy": not self.problems,
            "serving": not self.is_standby,
            "connected": self.is_connected,
            "seconds_behind": round(self.seconds_behind, 1),
            "problems": self.problems,
        }
        return json.dumps(content).encode() + b"\n"


Page = tuple[HTTPStatus, str, bytes]


class _Handler(BaseHTTPRequestHandler):
    """Serves one request from the pages."""

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
        """Log nothing, since polling every few seconds would fill the log."""


class _HealthServer(ThreadingHTTPServer):
    daemon_threads = True

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """Log nothing if a client disconnects."""


@contextmanager
def serve(address: str, *, health: Callable[[], Health], metrics: Callable[[], bytes]) -> Iterator[str]:
    """Serve the pages while the block runs; yield the actual address.

    :param address: ``host:port``; port 0 selects a free one.
    :raises SettingsError: if the port is not valid.
    :raises ServiceError: if the server cannot listen on the address.
    """
    host, _, port = address.rpartition(":")
    if int(port) > _LARGEST_PORT:
        raise SettingsError(f"listener.address is {address}; its port should be from 0 to {_LARGEST_PORT}")

    def healthz() -> Page:
        current = health()
        status = HTTPStatus.SERVICE_UNAVAILABLE if current.problems else HTTPStatus.OK
        return status, _JSON_TYPE, current.json

    pages = {"/healthz": healthz, "/metrics": lambda: (HTTPStatus.OK, _METRICS_TYPE, metrics())}
    handler = type("_BoundHandler", (_Handler,), {"pages": pages})
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    served = type("_BoundServer", (_HealthServer,), {"address_family": family})
    try:
        server = served((host.strip("[]"), int(port)), handler)
    except OSError as error:
        raise ServiceError(
            f"listener.address is {address}; listening there failed ({error.strerror or error}); "
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


class Metrics:
    """The metrics of one listener."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self.comments = self._counter("comments", "Comments that were read, each counted once.")
        self.requests = self._counter("requests", "Steps of requests.", "job", "outcome")
        self.answers = self._counter("answers", "Answers that were posted.")
        self.failures = self._counter("failures", "Failures by service.", "service")
        self.connected = self._gauge("connected", "Whether events of Gerrit are received.")
        self.serving = self._gauge("serving", "Whether this listener serves the requests, 0 if it stands by.")
        self.seconds_behind = self._gauge("seconds_behind", "Seconds since all comments were last read.")
        self.queue_length = self._gauge(
            "queue_length", "Requests that wait for a decision, a start or an answer."
        )

    def _counter(self, name: str, documentation: str, *labels: str) -> Counter:
        return Counter(f"perftrend_listener_{name}", documentation, labels, registry=self._registry)

    def _gauge(self, name: str, documentation: str) -> Gauge:
        return Gauge(f"perftrend_listener_{name}", documentation, registry=self._registry)

    def text(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self._registry)
