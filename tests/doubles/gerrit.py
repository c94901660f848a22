"""A double of a Gerrit: no real one, but one that fails, falls silent and lies when it is asked to.

What a Gerrit answers when all is well is tested on a real one (``tests/integration/test_gerrit_client.py``).
This one knows one change, keeps the reviews that are posted there, and counts what it is asked.
"""

from __future__ import annotations

import base64
import json
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from typing_extensions import override

Fault = Callable[["Handler"], None]
"""What is answered instead of what was asked for."""

ACCOUNT = {"_account_id": 7, "username": "perftrend", "name": "Perftrend"}
REVISION = "a" * 40
MOMENT = "2026-03-02 18:00:00.000000000"


@dataclass
class Asked:
    """A request that was received."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: Any = None


class GerritDouble:
    """The state of the double: set it, let the client ask, look at what it asked."""

    def __init__(self) -> None:
        self.url = ""
        self.login: tuple[str, str] | None = None
        self.faults: deque[Fault | None] = deque()
        """What the next requests get, in turn; None: what they ask for."""
        self.always: Fault | None = None
        self.files: dict[str, Any] = {}
        """What lies at a path, such as ``/groups/``."""
        self.pages: list[list[dict[str, Any]]] = []
        """What queries for changes get, in turn."""
        self.messages: list[dict[str, Any]] = []
        self.requests: list[Asked] = []

    @property
    def posted(self) -> list[Any]:
        """The bodies of the requests that came to post something."""
        return [each.body for each in self.requests if each.method == "POST"]

    def asked(self) -> list[str]:
        return [f"{each.method} {each.path}" for each in self.requests]

    def review(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Keep a review as Gerrit does; return its answer."""
        text = body.get("message") or "(1 comment)"
        self.messages.append({
            "id": f"m{len(self.messages)}", "author": ACCOUNT, "date": MOMENT, "_revision_number": 1,
            "message": f"Patch Set 1:\n\n{text}", "tag": body.get("tag", ""),
        })  # fmt: skip
        return {"labels": body.get("labels", {})}

    def told(self, path: str) -> object:
        """Return what lies at a path; None: nothing."""
        known: dict[str, object] = {
            "/accounts/self": ACCOUNT,
            "/changes/1": change(1) | {"messages": self.messages},
            "/changes/1/messages": self.messages,
            "/changes/1/comments": {},
        }
        return self.files.get(path, known.get(path))


def change(number: int, **others: Any) -> dict[str, Any]:
    """Return a change as Gerrit tells it."""
    revision = {
        "_number": 1, "ref": f"refs/changes/{number % 100:02}/{number}/1", "created": MOMENT,
        "uploader": ACCOUNT, "commit": {"parents": [{"commit": "b" * 40}]},
    }  # fmt: skip
    return {
        "_number": number, "change_id": f"I{number:040x}", "project": "router", "branch": "master",
        "subject": "A change", "status": "NEW", "owner": ACCOUNT, "updated": MOMENT,
        "revisions": {REVISION: revision}, **others,
    }  # fmt: skip


def event(**others: Any) -> dict[str, Any]:
    """Return an event of a comment as Gerrit writes it."""
    return {
        "type": "comment-added", "eventCreatedOn": 1_772_474_400, "comment": "Patch Set 1:\n\nhello",
        "author": {"username": "dev", "name": "Dev"},
        "approvals": [{"type": "Performance", "value": "-1", "oldValue": "0"}],
        "change": {"project": "router", "branch": "master", "id": f"I{1:040x}", "number": 1, "subject": "A"},
        "patchSet": {
            "number": 1, "revision": REVISION, "ref": "refs/changes/01/1/1", "parents": ["b" * 40],
        },
        **others,
    }  # fmt: skip


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"
    # Head and body go in two parts; the second would wait for what the other side says to the first.
    disable_nagle_algorithm = True
    double: GerritDouble

    def do_GET(self) -> None:
        self.answer("GET")

    def do_POST(self) -> None:
        self.answer("POST")

    def answer(self, method: str) -> None:
        double, parts = self.double, urlsplit(self.path)
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(sent) if sent else None
        double.requests.append(
            Asked(method, parts.path, parse_qs(parts.query), dict(self.headers.items()), body)
        )
        fault = double.always or (double.faults.popleft() if double.faults else None)
        if fault:
            fault(self)
        elif double.login and self.headers.get("Authorization") != basic(*double.login):
            self.send(401, b"Unauthorized")
        else:
            self.tell(f"/{parts.path.removeprefix('/a/').lstrip('/')}", body)

    def tell(self, path: str, body: Any) -> None:
        """Answer what was asked for."""
        double = self.double
        if path.endswith("/review"):
            self.json(double.review(body))
        elif path == "/changes/" and double.pages:
            self.json(double.pages.pop(0))
        else:
            told = double.told(path)
            self.send(404, b"Not found") if told is None else self.json(told)

    def json(self, told: object) -> None:
        self.send(200, b")]}'\n" + json.dumps(told).encode(), kind="application/json")

    def send(
        self,
        status: int,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        kind: str = "text/plain",
    ) -> None:
        self.send_response(status)
        sent = {"Content-Type": f"{kind};charset=utf-8", "Content-Length": str(len(body)), **(headers or {})}
        for name, value in sent.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""


def basic(user: str, token: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{token}'.encode()).decode()}"


class Server(ThreadingHTTPServer):
    daemon_threads = True

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """Stay silent: who asked has gone away."""


@contextmanager
def running() -> Iterator[GerritDouble]:
    """Run a double on a free port."""
    double = GerritDouble()
    handler = type("BoundHandler", (Handler,), {"double": double})
    with Server(("127.0.0.1", 0), handler) as server:
        double.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield double
        finally:
            server.shutdown()
            thread.join()


# ---- how it misbehaves


def status(code: int, text: str = "no", **headers: str) -> Fault:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler: handler.send(code, text.encode(), named)


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
    handler.send(200, b")]}'\n{", {"Content-Length": "1000"}, "application/json")
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
        handler.send(200, b")]}'\n{", {"Content-Length": "100000"}, "application/json")
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            handler.wfile.write(b" ")
            time.sleep(0.02)
        handler.close_connection = True

    return fault


def done_but(fault: Fault) -> Fault:
    """Do what was asked for, then misbehave: the answer is lost."""

    def lost(handler: Handler) -> None:
        handler.double.review(handler.double.requests[-1].body)
        fault(handler)

    return lost
