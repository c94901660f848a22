"""A double of Gerrit for what a real one does not do on request: fail, fall silent, send wrong data.

What a Gerrit answers when all is well is tested on a real one (``tests/integration/test_gerrit_client.py``).
This one knows one change, keeps the reviews that are posted there, and counts what it is asked.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from typing_extensions import override

from tests.doubles import faulty
from tests.doubles.faulty import Fault, basic

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


class Handler(faulty.Handler):
    """Answers one request."""

    kind = "text/plain;charset=utf-8"
    opening = b")]}'\n{"
    refusal = b"no"
    double: GerritDouble

    @override
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
        self.send(200, b")]}'\n" + json.dumps(told).encode(), kind="application/json;charset=utf-8")


@contextmanager
def running() -> Iterator[GerritDouble]:
    """Run a double on a free port."""
    double = GerritDouble()
    with faulty.served(Handler, double=double) as double.url:
        yield double


def done_but(fault: Fault) -> Fault:
    """Do what was asked for, then misbehave: the answer is lost."""

    def lost(handler: faulty.Handler) -> None:
        assert isinstance(handler, Handler)
        handler.double.review(handler.double.requests[-1].body)
        fault(handler)

    return lost
