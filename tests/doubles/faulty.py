"""The common base of the doubles: servers that answer, and that fail in a chosen way."""

from __future__ import annotations

import base64
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from typing_extensions import override

Fault = Callable[["Handler"], None]
"""What is answered instead of what was asked for."""

_DRIP_S = 0.02


class Handler(BaseHTTPRequestHandler):
    """Answers one request; what a request gets is told by ``answer``."""

    protocol_version = "HTTP/1.1"
    # Head and body go in two parts; the second would wait for what the other side says to the first.
    disable_nagle_algorithm = True
    kind = "text/html"
    """Of what it sends, unless told otherwise."""
    opening = b"{"
    """How its JSON begins."""
    refusal = b"<html>no</html>"
    """What it says beside a status."""

    def do_GET(self) -> None:
        self.answer("GET")

    def do_POST(self) -> None:
        self.answer("POST")

    def answer(self, method: str) -> None:
        raise NotImplementedError

    def send(
        self,
        status: int,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        kind: str = "",
    ) -> None:
        self.send_response(status)
        usual = {"Content-Type": kind or self.kind, "Content-Length": str(len(body)), **self.usual_headers()}
        for name, value in {**usual, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def usual_headers(self) -> dict[str, str]:
        """Return what it sends with every answer."""
        return {}

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """Stay silent: who asked has gone away."""


@contextmanager
def served(handler: type[Handler], **attributes: object) -> Iterator[str]:
    """Run a server on a free port, its handlers with these attributes; yield its address."""
    bound = type("BoundHandler", (handler,), attributes)
    with _Server(("127.0.0.1", 0), bound) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def basic(user: str, token: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{token}'.encode()).decode()}"


# ---- how it misbehaves


def status(code: int, text: str = "", **headers: str) -> Fault:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler: handler.send(code, text.encode() or handler.refusal, named)


def page(handler: Handler) -> None:
    """Answer as a page for logging in does."""
    handler.send(200, b"<!DOCTYPE html><html>Sign in</html>", kind="text/html")


def raw(body: bytes) -> Fault:
    return lambda handler: handler.send(200, body, kind="application/json")


def redirected_to(location: str) -> Fault:
    return lambda handler: handler.send(302, headers={"Location": location})


def reset(handler: Handler) -> None:
    """Break the connection off before an answer."""
    handler.close_connection = True
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.rfile.close()
    handler.wfile.close()
    handler.connection.close()


def cut_off(handler: Handler) -> None:
    """Break the connection off in the middle of an answer."""
    handler.send(200, handler.opening, {"Content-Length": "1000"}, "application/json")
    handler.close_connection = True


def silent(seconds: float) -> Fault:
    """Take so long to say anything."""

    def fault(handler: Handler) -> None:
        time.sleep(seconds)
        handler.close_connection = True

    return fault


def dripping(seconds: float) -> Fault:
    """Send a byte now and then, for so long."""

    def fault(handler: Handler) -> None:
        handler.send(200, handler.opening, {"Content-Length": "100000"}, "application/json")
        _drip(handler, b" ", seconds)

    return fault


def dripping_head(seconds: float) -> Fault:
    """Begin an answer, and send a letter of its head now and then, for so long."""

    def fault(handler: Handler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-")
        _drip(handler, b"x", seconds)

    return fault


def _drip(handler: Handler, byte: bytes, seconds: float) -> None:
    handler.close_connection = True
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        handler.wfile.write(byte)
        time.sleep(_DRIP_S)
