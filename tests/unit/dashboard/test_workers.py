"""Whether background workers are alive and make progress."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from perftrend.dashboard.background import run_in_background
from perftrend.dashboard.context import AppContext
from perftrend.dashboard.workers import STUCK_S, EndEvent, Workers
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
