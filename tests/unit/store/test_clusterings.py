"""Clusterings are requested by many, done by one, and are repeated if its process ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perftrend.store import Store
from perftrend.store.clusterings import LEASE, MOST_ATTEMPTS, ClusteringState, NewestClustering

NOW = datetime(2026, 3, 2, 18, tzinfo=UTC)
LATER = NOW + LEASE + timedelta(seconds=1)
PERIOD = timedelta(minutes=15)
TESTBED = "2n-clx"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.sqlite") as opened:
        yield opened


def claimed(store: Store, now: datetime = NOW) -> NewestClustering:
    task = store.clusterings.claim(now)
    assert task is not None
    return task


def state(store: Store) -> tuple[ClusteringState, str]:
    task = store.clusterings.of(TESTBED)
    assert task is not None
    return task.state, task.stage


def is_due(store: Store, data: str, now: datetime = NOW) -> bool:
    return store.clusterings.request_periodically(TESTBED, {}, data=data, period=PERIOD, now=now)


def test_second_request_joins_the_first(store: Store) -> None:
    first, is_new = store.clusterings.request(TESTBED, {"k": 3}, "ann")
    second, is_newer = store.clusterings.request(TESTBED, {"k": 4}, "bob")

    assert is_new
    assert not is_newer
    assert first == second
    assert ("ann", {"k": 3}) == (claimed(store).who, second.options)
    assert not store.clusterings.request(TESTBED, {"k": 4}, "bob")[1]
    assert [("ann", f"clusters of {TESTBED}")] == [
        (act.user, act.subject) for act in store.activity.newest(9)
    ]


def test_each_testbed_has_its_own_and_the_oldest_is_first(store: Store) -> None:
    for testbed in ("b", "a"):
        store.clusterings.request(testbed, {}, "ann")

    assert ["b", "a"] == [claimed(store).testbed for _ in range(2)]
    assert None is store.clusterings.claim(NOW)
    assert ["a", "b"] == [each.testbed for each in store.clusterings.all()]


def test_one_process_gets_it(store: Store, tmp_path: Path) -> None:
    store.clusterings.request(TESTBED, {}, "ann")
    begin = threading.Barrier(4)
    tokens: list[str] = []

    def claim() -> None:
        with Store.open(tmp_path / "store.sqlite") as mine:
            begin.wait()
            task = mine.clusterings.claim(NOW)
            if task:
                tokens.append(task.token)

    processes = [threading.Thread(target=claim) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()

    assert 1 == len(tokens)


def test_one_that_is_heard_of_keeps_it(store: Store) -> None:
    store.clusterings.request(TESTBED, {}, "ann")
    task = claimed(store)

    assert store.clusterings.beat(task, "iteration 3", LATER)
    assert None is store.clusterings.claim(LATER)
    assert (ClusteringState.RUNNING, "iteration 3") == state(store)


def test_one_that_is_not_heard_of_loses_it(store: Store) -> None:
    store.clusterings.request(TESTBED, {}, "ann")
    killed = claimed(store)

    other = claimed(store, LATER)

    assert killed.token != other.token
    assert not store.clusterings.beat(killed, "iteration 3", LATER)
    store.clusterings.fail(killed, "too late")
    store.clusterings.give_back(killed)
    assert (ClusteringState.RUNNING, "begins") == state(store)


def test_what_ends_processes_is_given_up(store: Store) -> None:
    store.clusterings.request(TESTBED, {}, "ann")
    for attempt in range(MOST_ATTEMPTS):
        claimed(store, NOW + attempt * 2 * LEASE)

    assert None is store.clusterings.claim(NOW + MOST_ATTEMPTS * 2 * LEASE)
    told, reason = state(store)
    assert ClusteringState.FAILED is told
    assert "given up" in reason
    assert store.clusterings.request(TESTBED, {}, "bob")[1]
    assert 1 == claimed(store).attempts


def test_stopping_costs_no_attempt(store: Store) -> None:
    store.clusterings.request(TESTBED, {}, "ann")
    for _ in range(MOST_ATTEMPTS + 1):
        store.clusterings.give_back(claimed(store))

    assert ClusteringState.REQUESTED is state(store)[0]


def test_failure_is_told_and_what_was_done_before_stays(store: Store) -> None:
    store.clusterings.request(TESTBED, {}, "ann")
    store.clusters.merge(claimed(store), lambda kept: kept, {"k": 3})
    store.clusterings.request(TESTBED, {}, "ann")

    store.clusterings.fail(claimed(store), "no trace")

    assert (ClusteringState.FAILED, "no trace") == state(store)
    task = store.clusterings.of(TESTBED)
    assert task is not None
    assert {"k": 3, "added": 0, "replaced": 0} == task.result


def test_failed_periodic_one_is_due_again_although_nothing_is_new(store: Store) -> None:
    assert is_due(store, "a")
    store.clusterings.fail(claimed(store), "no memory")

    assert [False, True] == [is_due(store, "a", NOW + after) for after in (PERIOD / 2, PERIOD)]


def test_cancelled_one_is_nobodys_and_the_next_one_is_new(store: Store) -> None:
    store.clusterings.request(TESTBED, {}, "ann")
    task = claimed(store)

    assert store.clusterings.cancel(TESTBED, "bob")

    assert (ClusteringState.CANCELLED, "bob has cancelled it") == state(store)
    assert not store.clusterings.beat(task, "goes on", NOW)
    store.clusterings.fail(task, "too late")
    store.clusterings.give_back(task)
    assert ClusteringState.CANCELLED is state(store)[0]
    assert store.clusterings.claim(LATER) is None
    assert store.clusterings.request(TESTBED, {}, "ann")[1]
    assert ClusteringState.REQUESTED is state(store)[0]


def test_cancelled_periodic_one_waits_for_something_new(store: Store) -> None:
    assert is_due(store, "a")
    store.clusterings.cancel(TESTBED, "bob")

    assert not is_due(store, "a", NOW + PERIOD)
    assert is_due(store, "b", NOW + 2 * PERIOD)


def test_what_is_not_under_way_is_not_cancelled(store: Store) -> None:
    assert store.clusterings.cancel(TESTBED, "bob") is None
    store.clusterings.request(TESTBED, {}, "ann")
    store.clusterings.fail(claimed(store), "broken")

    ended = store.clusterings.cancel(TESTBED, "bob")

    assert ended is not None
    assert (ClusteringState.FAILED, "broken") == (ended.state, ended.stage) == state(store)


def test_periodic_one_is_asked_for_once_a_period(store: Store) -> None:
    assert is_due(store, "1")
    store.clusters.merge(claimed(store), lambda kept: kept, {})

    assert not is_due(store, "2", NOW + PERIOD / 2)
    assert is_due(store, "2", NOW + PERIOD)


def test_periodic_one_waits_for_something_new(store: Store) -> None:
    is_due(store, "1")
    store.clusters.merge(claimed(store), lambda kept: kept, {})

    assert not is_due(store, "1", NOW + PERIOD)
    assert not is_due(store, "2", NOW + PERIOD)
    assert is_due(store, "2", NOW + 2 * PERIOD)


def test_periodic_one_follows_a_reset(store: Store) -> None:
    is_due(store, "1")
    store.clusters.merge(claimed(store), lambda kept: kept, {})
    store.clusters.reset(TESTBED, except_status="Bug", user="ann")

    assert is_due(store, "1", NOW + PERIOD)


def test_periodic_one_does_not_disturb_what_a_person_asked_for(store: Store) -> None:
    store.clusterings.request(TESTBED, {"k": 3}, "ann")

    assert not is_due(store, "1")
    assert {"k": 3} == claimed(store).options


def test_several_processes_ask_for_it_once(store: Store) -> None:
    begin = threading.Barrier(4)
    asked: list[bool] = []

    def ask() -> None:
        begin.wait()
        asked.append(is_due(store, "1"))

    processes = [threading.Thread(target=ask) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()

    assert 1 == asked.count(True)
