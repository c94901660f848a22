"""A double of a Jenkins: no real one, but what the real server of the integration tests lacks.

That one (Hudson, see ``tests/integration/servers``) has no queue items, ranges of lists, folders, API
tokens or crumbs by session, no 20,000 builds, and does not misbehave when asked to. This one has and does.
What it answers is written after Jenkins's documentation of its remote access API, and kept small.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from typing_extensions import override

from tests.doubles import faulty
from tests.doubles.faulty import Fault, basic

FIRST_STARTED_MS = 1_600_000_000_000


@dataclass
class Job:
    """A job with builds that all look alike but for their numbers."""

    numbers: list[int]
    """Newest first."""
    parameters: tuple[str, ...] = ()
    given: dict[int, dict[str, str]] = field(default_factory=dict)
    """Parameters of the builds that were started here."""
    items: dict[int, int] = field(default_factory=dict)
    """What those builds were in the queue."""
    building: set[int] = field(default_factory=set)
    aborted: set[int] = field(default_factory=set)
    artifacts: tuple[str, ...] = ("archives/output.xml.gz",)
    buildable: bool = True
    first_started_ms: int = FIRST_STARTED_MS

    def result(self, number: int) -> str:
        return "ABORTED" if number in self.aborted else "SUCCESS"

    def told(self, number: int) -> dict[str, Any]:
        given = self.given.get(number, {"TESTBED": "1n-veth"})
        parameters = [{"name": name, "value": value} for name, value in given.items()]
        return {
            "_class": "hudson.model.FreeStyleBuild",
            "actions": [{}, {"parameters": parameters}],
            "artifacts": [{"relativePath": path} for path in self.artifacts],
            "building": number in self.building,
            "description": None,
            "duration": 60_000,
            "number": number,
            "queueId": self.items.get(number, -1),
            "result": None if number in self.building else self.result(number),
            "timestamp": self.first_started_ms + number * 3_600_000,
        }


@dataclass
class Item:
    """A build that was asked for."""

    job: str
    parameters: dict[str, str]
    number: int | None = None
    """Of the build; None as long as it waits."""
    is_cancelled: bool = False

    def told(self, item: int, url: str) -> dict[str, Any]:
        path = "".join(f"/job/{quote(part)}" for part in self.job.split("/"))
        return {
            "_class": "hudson.model.Queue$BlockedItem",
            "id": item,
            "why": "Waiting for next available executor on \u2018testbeds\u2019",
            "inQueueSince": FIRST_STARTED_MS + item * 1000,
            "task": {"_class": "hudson.model.FreeStyleProject", "url": f"{url}{path}/"},
            "actions": [
                {},
                {"parameters": [{"name": name, "value": value} for name, value in self.parameters.items()]},
            ],
        }


@dataclass
class Asked:
    """A request that was received."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]


class JenkinsDouble:
    """The state of the double: set it, let the client ask, look at what it asked."""

    def __init__(self) -> None:
        self.url = ""
        self.jobs: dict[str, Job] = {}
        self.views: dict[str, list[str]] = {}
        self.files: dict[str, bytes] = {}
        """What lies at a path, such as ``/job/x/1/artifact/a``."""
        self.tag = '"1"'
        """The files' ETag; empty: none is sent."""
        self.log = b""
        self.login: tuple[str, str] | None = None
        self.crumbs = False
        self.session = 0
        """The session that crumbs are good for; a new number makes the old ones void."""
        self.queue_looks = 1
        """How often an item is seen waiting before it runs."""
        self.queue_cancelled = False
        self.queue_forgets = False
        self.queue_holds = False
        """Whether what is started waits until it is let go."""
        self.has_queue = True
        self.faults: deque[Fault | None] = deque()
        """What the next requests get, in turn; None: what they ask for."""
        self.always: Fault | None = None
        self.requests: list[Asked] = []
        self.changes: deque[Callable[[], None]] = deque()
        """What happens after each of the next requests."""
        self._items: list[Item] = []

    def asked(self, method: str = "") -> list[str]:
        """Return the paths that were asked for."""
        return [each.path for each in self.requests if method in ("", each.method)]

    def enqueue(self, job: str, parameters: Mapping[str, str]) -> int:
        self._items.append(Item(job, dict(parameters)))
        if not self.queue_holds:
            self.let_go(len(self._items))
        return len(self._items)

    def let_go(self, item: int) -> None:
        """Let what waits begin."""
        waiting = self._items[item - 1]
        job = self.jobs[waiting.job]
        waiting.number = max(job.numbers, default=0) + 1
        job.numbers.insert(0, waiting.number)
        job.given[waiting.number] = waiting.parameters
        job.items[waiting.number] = item

    def item(self, number: int) -> dict[str, Any] | None:
        if self.queue_forgets or not 0 < number <= len(self._items):
            return None
        if self.queue_cancelled:
            return {"cancelled": True}
        if self.queue_looks > 0:
            self.queue_looks -= 1
            return {"why": "In the quiet period."}
        return {"executable": {"number": self._items[number - 1].number}}

    def waiting(self) -> list[dict[str, Any]]:
        """Return what is told of the queue."""
        items = enumerate(self._items, 1)
        return [
            each.told(item, self.url) for item, each in items if each.number is None and not each.is_cancelled
        ]

    def cancel(self, item: int) -> bool:
        """Remove what waits; tell whether it did."""
        found = 0 < item <= len(self._items) and self._items[item - 1].number is None
        if found:
            self._items[item - 1].is_cancelled = True
        return found

    def stop(self, job: str, number: int) -> bool:
        """Abort a build; tell whether it exists. One that has ended stays what it is."""
        found = job in self.jobs and number in self.jobs[job].numbers
        if found and number in self.jobs[job].building:
            self.jobs[job].building.remove(number)
            self.jobs[job].aborted.add(number)
        return found

    def listed(self, folder: str, *, deeper: bool = True) -> list[dict[str, Any]]:
        """Return the jobs and folders that lie directly in a folder."""
        prefix = f"{folder}/" if folder else ""
        inside = [name.removeprefix(prefix) for name in self.jobs if name.startswith(prefix)]
        told = []
        for name in dict.fromkeys(each.partition("/")[0] for each in inside):
            is_job = f"{prefix}{name}" in self.jobs
            rest = {} if is_job or not deeper else {"jobs": self.listed(f"{prefix}{name}", deeper=False)}
            told.append({"name": name, **rest})
        return told


class Handler(faulty.Handler):
    """Answers one request."""

    opening = b'{"jobs": '
    double: JenkinsDouble

    @override
    def answer(self, method: str) -> None:
        double, parts = self.double, urlsplit(self.path)
        form = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        double.requests.append(
            Asked(method, parts.path, parse_qs(parts.query or form), dict(self.headers.items()))
        )
        fault = double.always or (double.faults.popleft() if double.faults else None)
        if fault:
            fault(self)
        elif double.login and self.headers.get("Authorization") != basic(*double.login):
            self.send(401)
        elif method == "POST":
            self.post(parts.path, parse_qs(form, keep_blank_values=True))
        else:
            self.get(parts.path, parse_qs(parts.query))
        if double.changes:
            double.changes.popleft()()

    def post(self, path: str, form: Mapping[str, list[str]]) -> None:
        double = self.double
        has_crumb = (self.headers.get("Jenkins-Crumb"), self.headers.get("Cookie")) == (
            f"crumb{double.session}", f"SESSION={double.session}")  # fmt: skip
        if double.crumbs and not has_crumb:
            self.send(403)
            return
        if path == "/queue/cancelItem":
            self.send(204 if double.cancel(int(double.requests[-1].query["id"][0])) else 404)
            return
        if stop := re.fullmatch(r"(.*)/(\d+)/stop", path):
            found = double.stop(job_name(stop[1]), int(stop[2]))
            self.send(302 if found else 404, headers={"Location": f"{double.url}{stop[1]}/{stop[2]}/"})
            return
        name = job_name(path.rpartition("/")[0])
        if name not in double.jobs or path.endswith("/build") == bool(double.jobs[name].parameters):
            self.send(404 if name not in double.jobs else 400)
            return
        item = double.enqueue(name, {key: values[0] for key, values in form.items()})
        self.send(201, headers={"Location": f"{double.url}/queue/item/{item}/"})

    def get(self, path: str, query: Mapping[str, list[str]]) -> None:
        double = self.double
        if path in double.files:
            self.file(double.files[path])
        elif path.endswith("/logText/progressiveText"):
            start = int(query["start"][0])
            # A little more each time, as from a build that writes.
            end = min(len(double.log), start + 10)
            more = {"X-More-Data": "true"} if end < len(double.log) else {}
            self.send(200, double.log[start:end], {"X-Text-Size": str(end), **more}, "text/plain")
        else:
            told = self.told(path.removesuffix("/api/json"), query.get("tree", [""])[0])
            self.send(404) if told is None else self.json(told)

    def told(self, path: str, tree: str) -> dict[str, Any] | None:
        double = self.double
        if path == "/crumbIssuer":
            crumb = {"crumbRequestField": "Jenkins-Crumb", "crumb": f"crumb{double.session}"}
            return crumb if double.crumbs else None
        if path == "/queue":
            return {"items": double.waiting()} if double.has_queue else None
        if item := re.fullmatch(r"/queue/item/(\d+)", path):
            return double.item(int(item[1]))
        if view := re.fullmatch(r"(?:/view/[^/]+)+", path):
            names = double.views.get("/".join(unquote(view[0]).split("/view/")[1:]))
            return None if names is None else {"jobs": [{"name": name} for name in names]}
        head, _, number = path.rpartition("/")
        if number.isdigit() and int(number) in self.builds(job_name(head)):
            return double.jobs[job_name(head)].told(int(number))
        return self.job(job_name(path), tree)

    def builds(self, name: str) -> list[int]:
        return self.double.jobs[name].numbers if name in self.double.jobs else []

    def job(self, name: str, tree: str) -> dict[str, Any] | None:
        job = self.double.jobs.get(name)
        if not job:
            listed = self.double.listed(name)
            return {"jobs": listed} if listed or not name else None
        newest = job.numbers[0] if job.numbers else 0
        definitions = [{"name": each} for each in job.parameters]
        told: dict[str, Any] = {
            "_class": "hudson.model.FreeStyleProject",
            "buildable": job.buildable,
            "fullName": name,
            "lastBuild": {"number": newest, "building": newest in job.building} if newest else None,
            "nextBuildNumber": newest + 1,
            "property": [{}, {"parameterDefinitions": definitions}],
        }
        if asked := re.fullmatch(r"allBuilds\[(.*)\](?:\{(\d+),(\d+)\})?", tree):
            chosen = job.numbers[int(asked[2] or 0) : int(asked[3] or len(job.numbers))]
            is_short = "result" not in asked[1]
            return {"allBuilds": [{"number": each} if is_short else job.told(each) for each in chosen]}
        if not tree:
            told["builds"] = [{"number": each} for each in job.numbers[:100]]
            told["firstBuild"] = {"number": job.numbers[-1]}
        return told

    def file(self, content: bytes) -> None:
        tag = {"ETag": self.double.tag} if self.double.tag else {}
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        is_same = self.headers.get("If-Range", self.double.tag) == self.double.tag
        start = int(asked[1]) if asked and is_same else 0
        if start > len(content) - 1 and start:
            self.send(416, headers={"Content-Range": f"bytes */{len(content)}", **tag})
        elif start:
            told = {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}", **tag}
            self.send(206, content[start:], told, "application/octet-stream")
        else:
            self.send(200, content, tag, "application/octet-stream")

    @override
    def usual_headers(self) -> dict[str, str]:
        session = {"Set-Cookie": f"SESSION={self.double.session}; Path=/"} if self.double.crumbs else {}
        return {"X-Jenkins": "2.462.3", **session}

    def json(self, told: object) -> None:
        self.send(200, json.dumps(told).encode(), kind="application/json")


def job_name(path: str) -> str:
    return "/".join(unquote(part) for part in re.findall(r"/job/([^/]+)", path))


@contextmanager
def running() -> Iterator[JenkinsDouble]:
    """Run a double on a free port."""
    double = JenkinsDouble()
    with faulty.served(Handler, double=double) as double.url:
        yield double
