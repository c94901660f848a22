"""Each client has a bucket of tokens; requests take them, and time brings them back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from perftrend.dashboard import AppContext, make_app
from perftrend.dashboard.middleware import rate_limit
from perftrend.dashboard.middleware.rate_limit import Buckets
from perftrend.settings import Settings
from perftrend.store import Store


class Clock:
    """Seconds that only go on when told so."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_burst_passes_and_the_next_request_waits() -> None:
    buckets = Buckets(2.0, 3, clock=Clock())

    waits = [buckets.wait_s("a") for _ in range(4)]

    assert [0.0, 0.0, 0.0, 0.5] == waits


def test_waiting_for_so_long_is_enough() -> None:
    clock = Clock()
    buckets = Buckets(2.0, 1, clock=clock)
    buckets.wait_s("a")
    clock.now += buckets.wait_s("a")

    assert 0.0 == buckets.wait_s("a")


def test_clients_do_not_take_from_each_other() -> None:
    buckets = Buckets(1.0, 1, clock=Clock())
    buckets.wait_s("a")

    assert 0.0 == buckets.wait_s("b")


def test_bucket_that_is_full_again_is_forgotten() -> None:
    clock = Clock()
    buckets = Buckets(1.0, 10, clock=clock)
    for name in "abc":
        buckets.wait_s(name)
    clock.now += 10.0
    buckets.wait_s("d")

    assert 1 == len(buckets)


def test_many_clients_take_no_more_memory_than_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limit, "MOST_BUCKETS", 5)
    buckets = Buckets(1.0, 10, clock=Clock())
    for number in range(20):
        buckets.wait_s(str(number))

    assert 5 == len(buckets)


@given(st.lists(st.floats(0.0, 3.0), min_size=1, max_size=60), st.floats(0.5, 20.0), st.integers(1, 10))
def test_nobody_gets_more_than_rate_and_burst(pauses: list[float], rate: float, burst: int) -> None:
    clock = Clock()
    buckets = Buckets(rate, burst, clock=clock)
    began, passed = clock.now, 0
    for pause in pauses:
        clock.now += pause
        passed += buckets.wait_s("a") == 0.0

    assert passed <= burst + (clock.now - began) * rate + 1e-6


def test_client_is_told_when_to_come_back(store: Store) -> None:
    overrides = {"dashboard.burst": 2, "dashboard.requests_per_second": 0.1}
    site = AppContext.of(Settings.load(environment={}, overrides=overrides), store)
    with TestClient(make_app(site), base_url="http://localhost") as client:
        answers = [client.get("/runs", headers={"Accept": "application/json"}) for _ in range(3)]
        health = client.get("/healthz")

    assert [200, 200, 429] == [answer.status_code for answer in answers]
    assert "10" == answers[-1].headers["Retry-After"]
    assert {"error": "too many requests; try again in 10 s"} == answers[-1].json()
    assert 200 == health.status_code
