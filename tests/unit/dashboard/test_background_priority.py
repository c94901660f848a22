"""Background work yields to requests, and still finishes."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from starlette.types import Receive, Scope, Send

from perftrend.dashboard import background_priority as module
from perftrend.dashboard.background_priority import RequestPriority, Traffic


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
