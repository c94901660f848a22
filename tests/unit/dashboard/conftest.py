"""A small store with a step at a known commit, and clients of its dashboard."""

from __future__ import annotations

import hashlib
import random
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from starlette.testclient import TestClient

from perftrend import message
from perftrend.dashboard import AppContext, make_app
from perftrend.dashboard.auth import Authenticator, Person
from perftrend.measurement import Latency, LoadLatency, Measurement
from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.settings import Settings
from perftrend.store import Store
from perftrend.store.requests import Request, RequestState

TESTBEDS = ("2n-clx", "3n-skx")
TESTS = ("64b-1c-ethip4-ip4base", "64b-2c-ethip4-ip4base", "1518b-1c-eth-l2bdbase")
METRICS = {"mrr": ("pps", Better.HIGHER), "ndr": ("pps", Better.HIGHER), "latency": ("us", Better.LOWER)}
RUNS = 60
STEP = 40
"""The number of the first run after the step: the first test of the first testbed is 15 % slower."""
FIRST = datetime(2026, 1, 1, 2, tzinfo=UTC)


def commit(number: int) -> str:
    """Return the commit that a run measured."""
    return hashlib.sha1(str(number).encode(), usedforsecurity=False).hexdigest()


SLOWER = TraceKey.of(testbed=TESTBEDS[0], suite="ip4", test=TESTS[0], frame="64B", cores="1c", metric="mrr")


@dataclass(frozen=True)
class Filled:
    """A store of 18 traces on two testbeds, each with 60 runs."""

    store: Store
    step_commit: str = commit(STEP)
    slower: TraceKey = SLOWER
    """A trace with the step."""


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Give an empty store; in a test that requests ``filled``, that one."""
    place = tmp_path / "store.sqlite"
    if "filled" in request.fixturenames:
        place.write_bytes(filled_file())
    with Store.open(place) as opened:
        yield opened


@pytest.fixture
def filled(store: Store) -> Filled:
    """Give a store of 18 traces with a step."""
    return Filled(store)


@pytest.fixture
def settings() -> Settings:
    """Return the settings of the site; tests override it where they need others."""
    return Settings.load(environment={}, overrides={"dashboard.editors": "eva", "dashboard.admins": "ada"})


@pytest.fixture
def site(settings: Settings, store: Store) -> AppContext:
    return AppContext.of(settings, store)


@pytest.fixture
def client(site: AppContext) -> Iterator[TestClient]:
    """Give a client of somebody who may read."""
    with TestClient(make_app(site), base_url="http://localhost", follow_redirects=False) as opened:
        yield opened


@pytest.fixture
def editor(site: AppContext) -> Iterator[TestClient]:
    """Give a client of Eva, who may change what people keep; her forms have to carry ``token``."""
    with signed_in(site, "eva") as opened:
        yield opened


@pytest.fixture
def token(editor: TestClient) -> str:
    """Return what the forms of Eva have to carry, in the field ``csrf`` or the header ``X-CSRF-Token``."""
    return token_of(editor)


@pytest.fixture
def admin(site: AppContext) -> Iterator[TestClient]:
    """Give a client of Ada, who may do everything; her forms have to carry ``token_of(admin)``."""
    with signed_in(site, "ada") as opened:
        yield opened


@contextmanager
def signed_in(site: AppContext, name: str) -> Iterator[TestClient]:
    """Give a client of somebody who has signed in."""
    app = make_app(site)
    authenticator: Authenticator = app.state.authenticator
    cookies = {authenticator.session_cookie: authenticator.sessions.begin(Person(name)).cookie}
    with TestClient(app, base_url="http://localhost", follow_redirects=False, cookies=cookies) as opened:
        yield opened


def token_of(client: TestClient) -> str:
    """Return what the forms of somebody who has signed in have to carry."""
    authenticator: Authenticator = client.app.state.authenticator  # type: ignore[attr-defined]
    session = authenticator.sessions.find(client.cookies[authenticator.session_cookie])
    assert session is not None
    return authenticator.csrf.token(session.bound)


def routes_of(app: Any) -> list[APIRoute]:
    """Return all routes of an application, those of included routers too."""
    found: list[APIRoute] = []

    def walk(each: Iterable[BaseRoute]) -> None:
        for route in each:
            if isinstance(route, APIRoute):
                found.append(route)
            # FastAPI keeps an included router, or copies its routes, as its version has it.
            walk(getattr(getattr(route, "original_router", None), "routes", []))

    walk(app.routes)
    return found


@cache
def filled_file() -> bytes:
    """Return the file of a filled store, which takes more than a second to make."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "store.sqlite"
        with Store.open(place) as store:
            fill(store)
        return place.read_bytes()


def fill(store: Store) -> None:
    """Put the runs of all nights into a store."""
    noise = random.Random(1)  # noqa: S311 - noise, no secret
    for testbed in TESTBEDS:
        for number in range(RUNS):
            add_run(store, testbed, number, noise)


def fill_queue(store: Store) -> None:
    """Put a running, a queued and an ended job into a store."""
    now = datetime.now(UTC)
    store.requests.add([
        request("running", RequestState.RUNNING, began=now - timedelta(minutes=20)),
        request("queued", author="John Roe", line="bisecttest-2n-clx " + commit(STEP), job="bisecttest"),
        request("ended", RequestState.ENDED, began=now - timedelta(hours=3), duration_s=5400.0),
    ])  # fmt: skip


def request(key: str, state: RequestState = RequestState.WAITING, **others: Any) -> Request:
    """Return a request of the last hour for a job of an estimated hour."""
    now = datetime.now(UTC).replace(microsecond=0)
    return replace(
        Request(
            key=key, change=12, patch_set=3, project="router", branch="master", revision="a" * 40,
            ref="refs/changes/12/12/3", review=key, comment=key, path=None, account="1000003",
            asked=now - timedelta(hours=1), place=0, line="perftest-2n-clx mrrAND64b", job="perftest",
            testbed="2n-clx", state=state, decided=now, answered=True, author="Jane Doe", estimated_s=3600.0,
        ),
        **others,
    )  # fmt: skip


def add_run(store: Store, testbed: str, number: int, noise: random.Random) -> None:
    """Put the run of one night into a store."""
    started = FIRST + timedelta(days=number)
    run = Run(
        testbed,
        "nightly",
        number + 1,
        started,
        started + timedelta(hours=1),
        {"device": commit(number)},
        f"https://jenkins.example.org/job/nightly-{testbed}/{number + 1}/",
    )
    store.add(run, [result(testbed, test, metric, number, noise) for test in TESTS for metric in METRICS])


def add_run_with_latency(store: Store) -> list[TraceKey]:
    """Put a run with NDR, PDR and the latency at 50 % of PDR into a store; return their traces."""
    run = Run(TESTBEDS[0], "nightly", 1, FIRST, FIRST + timedelta(hours=1), {"device": commit(1)})
    way = Latency(5.0, 20.0, 90.0, ((10.0, 9), (100.0, 1)))
    latency = {"latency_50": LoadLatency(4e6, (way, way))}
    measured = Measurement("ndrpdr", run.testbed, "64B", 64, run.started, run.finished, latency=latency)
    units = {"ndr": ("pps", Better.HIGHER), "pdr": ("pps", Better.HIGHER), "latency_50": ("us", Better.LOWER)}
    results = [
        Result(
            TraceKey.of(testbed=run.testbed, suite="ip4", test=TESTS[0], metric=metric),
            unit, better, Status.PASS, (20.0,), 20.0, details=message.document(measured),
        )
        for metric, (unit, better) in units.items()
    ]  # fmt: skip
    store.add(run, results)
    return [each.key for each in results]


def result(testbed: str, test: str, metric: str, number: int, noise: random.Random) -> Result:
    """Make the result of a test in one night."""
    frame, cores, kind = test.split("-")[:3]
    key = TraceKey.of(
        testbed=testbed,
        suite="l2" if kind == "eth" else "ip4",
        test=test,
        frame=frame.upper(),
        cores=cores,
        metric=metric,
    )
    unit, better = METRICS[metric]
    usual = 50.0 if unit == "us" else 1e7 * (1 + TESTS.index(test))
    slower = number >= STEP and (testbed, test) == (TESTBEDS[0], TESTS[0])
    factor = (1 / 0.85 if unit == "us" else 0.85) if slower else 1.0
    samples = tuple(usual * factor * noise.gauss(1.0, 0.005) for _ in range(3))
    return Result(key, unit, better, Status.PASS, samples, sum(samples) / len(samples))
