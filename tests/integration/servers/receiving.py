"""The receivers of alerts: a mail server, a webhook, and a change in Gerrit.

Each has a port of its own for as long as it lives, and listens there only while it is open: a test decides
when it is away. Each calls ``interrupt`` at the moment that a test wants to disturb.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import requests
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from tests.integration.servers.java import free_port

HOST = "127.0.0.1"
_PASSED_ON = ("Authorization", "Content-Type", "Accept")


def _nothing() -> None:
    """Do not disturb."""


@dataclass
class Mailbox:
    """A mail server that keeps what it takes."""

    port: int = field(default_factory=free_port)
    mails: list[EmailMessage] = field(default_factory=list)
    interrupt: Callable[[], None] = _nothing
    """Called when it knows for whom a mail is, before it has the mail."""

    @contextmanager
    def opened(self) -> Iterator[None]:
        controller = Controller(self, hostname=HOST, port=self.port)
        controller.start()
        try:
            yield
        finally:
            controller.stop()

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        self.interrupt()
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(  # noqa: N802 - aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        assert isinstance(envelope.content, bytes)
        mail = message_from_bytes(envelope.content, policy=default)
        assert isinstance(mail, EmailMessage)
        self.mails.append(mail)
        return "250 OK"


@dataclass(frozen=True)
class Delivery:
    """What a webhook got."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Hook:
    """A webhook."""

    port: int = field(default_factory=free_port)
    deliveries: list[Delivery] = field(default_factory=list)
    interrupt: Callable[[], None] = _nothing
    """Called when it has a message, before it answers."""

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/alerts?team=data%20plane"

    @contextmanager
    def opened(self) -> Iterator[None]:
        with _listening(self.port, self._answer):
            yield

    def _answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, str, bytes]:
        self.deliveries.append(Delivery(path, headers, body))
        self.interrupt()
        return 204, "", b""


@dataclass
class Front:
    """The way to a web server, which answers through it."""

    target: str
    port: int = field(default_factory=free_port)
    interrupt: Callable[[], None] = _nothing
    """Called when the server has taken a review, before its answer is passed on."""

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @contextmanager
    def opened(self) -> Iterator[None]:
        with _listening(self.port, self._answer):
            yield

    def _answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, str, bytes]:
        passed_on = {name: headers[name] for name in _PASSED_ON if name in headers}
        answer = requests.request(
            method, f"{self.target}{path}", data=body, headers=passed_on, timeout=60, allow_redirects=False
        )
        if method == "POST" and path.endswith("/review"):
            self.interrupt()
        return answer.status_code, answer.headers.get("Content-Type", ""), answer.content


_Answer = Callable[[str, str, dict[str, str], bytes], tuple[int, str, bytes]]


@contextmanager
def _listening(port: int, answer: _Answer) -> Iterator[None]:
    class Handler(_Handler):
        asked = staticmethod(answer)

    server = ThreadingHTTPServer((HOST, port), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    asked: ClassVar[_Answer]

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, kind, content = self.asked(self.command, self.path, dict(self.headers), body)
        # Who asked may be gone by now.
        with suppress(ConnectionError):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the standard library's name
        """Say nothing."""
