"""Whether background workers are alive and make progress, yield to requests, and still finish."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from perftrend.dashboard import workers as module
from perftrend.dashboard.background import run_in_background
from perftrend.dashboard.context import AppContext
from perftrend.dashboard.workers import STUCK_S, EndEvent, RequestPriority, Traffic, Workers
from perftrend.store.connection import engine_of


def health_of(client: TestClient) -> tuple[int, list[str]]:
    answer = client.get("/healthz")
    return answer.status_code, answer.json()["problems"]


def wait_for(event: threading.Event, timeout_s: float | None = None) -> None:
    event.wait(timeout_s)


def until(is_true: Callable[[], object]) -> None:
    pause = threading.Event()
    while not is_true():
        pause.wait(0.01)


def test_worker_that_runs_is_healthy(site: AppContext, client: TestClient) -> None:
    def wait(_: AppContext, ending: threading.Event) -> None:
        ending.wait()

    with run_in_background(site, wait):
        assert {"wait": ""} == site.workers.problems()
        assert (200, []) == health_of(client)
    assert {} == site.workers.problems()


def test_worker_with_nothing_to_do_is_healthy(site: AppContext) -> None:
    def watch(_: AppContext, __: threading.Event) -> None:
        return

    with run_in_background(site, watch):
        until(lambda: not site.workers.problems())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_worker_whose_thread_died_is_a_problem(site: AppContext, client: TestClient) -> None:
    def die(_: AppContext, __: threading.Event) -> None:
        raise GeneratorExit

    with run_in_background(site, die):
        until(lambda: site.workers.problems() == {"die": "has ended"})
        assert (503, ["the background worker die has ended; restart the dashboard"]) == health_of(client)
        assert (200, "alive\n") == (client.get("/livez").status_code, client.get("/livez").text)


def test_worker_without_progress_is_stuck() -> None:
    seconds, stuck, workers = [0.0], threading.Event(), Workers()
    ending = EndEvent(lambda: seconds[0])

    with workers.run("scan", lambda: wait_for(stuck), ending):
        seconds[0] = STUCK_S
        assert {"scan": ""} == workers.problems()
        seconds[0] += 60
        assert {"scan": "has made no progress for 31 minutes"} == workers.problems()
        ending.is_set()
        assert {"scan": ""} == workers.problems()
        stuck.set()


def test_worker_that_waits_for_long_is_not_stuck() -> None:
    seconds, workers = [0.0], Workers()
    ending = EndEvent(lambda: seconds[0])

    with workers.run("watch", lambda: wait_for(ending, 86400), ending):
        until(lambda: ending.idle_s < 0)
        seconds[0] = 80000
        assert {"watch": ""} == workers.problems()


def test_store_of_another_version_is_a_problem(client: TestClient, tmp_path: Path) -> None:
    with engine_of(tmp_path / "store.sqlite").begin() as connection:
        connection.execute(sa.text("UPDATE perftrend_version SET version_num = '9999'"))

    problem = "the database has another version than the dashboard; start the dashboard of that version"
    assert (503, [problem]) == health_of(client)


def took_s(traffic: Traffic, steps: int) -> float:
    give_way = traffic.give_way_callback()
    begin = time.monotonic()
    for _ in range(steps):
        give_way()
    return time.monotonic() - begin


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let work wait for as long as a request takes."""
    monkeypatch.setattr(module, "_MOST_S", 60.0)


@pytest.mark.usefixtures("patient")
def test_work_goes_on_where_nobody_waits() -> None:
    traffic = Traffic()
    with traffic.request():
        pass

    assert took_s(traffic, 1000) < 30


@pytest.mark.usefixtures("patient")
def test_work_waits_until_the_last_request_is_answered() -> None:
    traffic = Traffic()
    give_way = traffic.give_way_callback()
    worker = threading.Thread(target=give_way)
    with traffic.request():
        with traffic.request():
            worker.start()
        worker.join(0.2)
        assert worker.is_alive()
    worker.join(30)

    assert not worker.is_alive()


def test_work_has_its_turn_where_there_is_always_somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_S", 0.2)
    monkeypatch.setattr(module, "_TURN_S", 3600.0)
    traffic = Traffic()
    with traffic.request():
        waited = took_s(traffic, 1000)

    assert 0.19 < waited < 60


def test_request_counts_until_its_answer_whatever_comes_of_it() -> None:
    traffic = Traffic()
    waits: list[bool] = []

    async def failing(scope: Scope, receive: Receive, send: Send) -> None:
        waits.append(not traffic._idle.is_set())
        raise ValueError("broken")

    async def no_message(*_: object) -> dict[str, object]:
        return {}

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(RequestPriority(failing, traffic=traffic)({"type": "http"}, no_message, no_message))

    assert [True] == waits
    assert traffic._idle.is_set()
