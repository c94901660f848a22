"""Reported builds: each is claimed by one process at a time, until it is done."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perftrend.store import Store, ingestions
from perftrend.store.ingestions import LEASE, Ingestion, Ingestions, IngestionState

NOW = datetime(2026, 3, 2, 18, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Ingestions]:
    with Store.open(tmp_path / "store.sqlite") as store:
        yield store.ingestions


def asked(queue: Ingestions, build: int = 1, *, source: str = "", now: datetime = NOW) -> Ingestion:
    found, _ = queue.request("nightly", build, now=now, most=10, source=source)
    assert found is not None
    return found


def claimed(queue: Ingestions, now: datetime = NOW) -> Ingestion:
    found = queue.claim(now)
    assert found is not None
    return found


def test_who_asks_for_what_is_under_way_joins(queue: Ingestions) -> None:
    first = asked(queue)

    assert (first, False) == queue.request("nightly", 1, now=NOW + SECOND, most=10)
    claimed(queue)
    assert first.number == asked(queue).number
    assert first.number != asked(queue, 2).number != asked(queue, 2, source="/srv").number


def test_what_has_ended_can_be_asked_for_again(queue: Ingestions) -> None:
    first = asked(queue)
    queue.finish(claimed(queue), state=IngestionState.FAILED, now=NOW, exit_code=3, message="no answer")

    assert first.number < asked(queue).number
    assert [IngestionState.WAITING, IngestionState.FAILED] == [each.state for each in queue.newest(10)]


def test_no_more_wait_than_may(queue: Ingestions) -> None:
    asked(queue, 1)

    assert (None, False) == queue.request("nightly", 2, now=NOW, most=1)
    assert queue.request("nightly", 1, now=NOW, most=1)[0]


def test_those_that_are_due_come_in_their_order(queue: Ingestions) -> None:
    asked(queue, 1, now=NOW + SECOND)
    asked(queue, 2)

    assert [2] == [each.build for each in iter(lambda: queue.claim(NOW), None)]
    assert 1 == claimed(queue, NOW + SECOND).build


def test_what_is_put_back_waits_until_it_is_due(queue: Ingestions) -> None:
    asked(queue)
    queue.release(claimed(queue), due=NOW + 60 * SECOND, exit_code=2, message="1 missing")

    assert queue.claim(NOW + 59 * SECOND) is None
    again = claimed(queue, NOW + 60 * SECOND)
    assert (2, 2, "1 missing") == (again.attempts, again.exit_code, again.told)


def test_process_that_is_not_heard_of_has_lost_what_it_took(queue: Ingestions) -> None:
    asked(queue)
    lost = claimed(queue)
    assert queue.beat(lost, NOW + LEASE / 2)

    assert queue.claim(NOW + LEASE) is None
    taken = claimed(queue, NOW + LEASE / 2 + LEASE + SECOND)
    assert taken.number == lost.number
    assert not queue.beat(lost, NOW)
    assert not queue.finish(lost, state=IngestionState.FAILED, now=NOW, exit_code=1, message="")
    assert queue.finish(taken, state=IngestionState.DONE, now=NOW, exit_code=0, message="1 new")
    assert [IngestionState.DONE] == [each.state for each in queue.newest(10)]


def test_old_ones_are_forgotten_unless_they_wait(queue: Ingestions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingestions, "MOST_RETAINED", 2)
    asked(queue, 1)
    for build in (2, 3, 4, 5):
        asked(queue, build, now=NOW - SECOND)
        queue.finish(claimed(queue), state=IngestionState.DONE, now=NOW, exit_code=0, message="")

    assert [5, 4, 1] == [each.build for each in queue.newest(10)]
