"""Figures of a store for monitoring."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from perftrend.model import Run
from perftrend.store import Store
from perftrend.store.alerts import Rules
from perftrend.store.connection import engine_of
from perftrend.store.schema import evaluations

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
RUN = Run(
    job="j",
    build=1,
    testbed="2n-clx",
    started=NOW,
    finished=NOW + timedelta(hours=2),
    versions={},
    archive="",
)


def test_empty_store_has_empty_queues(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.sqlite") as store:
        figures = store.statistics.read()

    assert {"ingestions": 0, "clusterings": 0, "outbox": 0} == {
        queue.name: queue.length for queue in figures.queues
    }
    assert (0, []) == (figures.given_up, figures.testbeds)


def test_oldest_waiting_ingestion_is_known(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.sqlite") as store:
        for build in (1, 2):
            store.ingestions.request("j", build, now=NOW + timedelta(minutes=build), most=9)
        queue = store.statistics.read().queues[0]

    assert (2, NOW + timedelta(minutes=1)) == (queue.length, queue.oldest)


def test_durations_of_runs_are_added(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.sqlite") as store:
        store.add(RUN, [])
        later = timedelta(days=1)
        store.add(replace(RUN, build=2, started=NOW + later, finished=NOW + later + timedelta(hours=1)), [])
        (testbed,) = store.statistics.read().testbeds

    assert ("2n-clx", 10800, None) == (testbed.testbed, round(testbed.measured_s), testbed.lag_s)


@pytest.mark.parametrize(("evaluated", "lag_s"), [(1, 86400), (2, 0)])
def test_lag_is_the_time_between_the_newest_and_the_evaluated_run(
    tmp_path: Path, evaluated: int, lag_s: int
) -> None:
    place, later = tmp_path / "s.sqlite", timedelta(days=1)
    with Store.open(place) as store:
        store.alerts.add(Rules("all", ""), user="ann")
        store.add(RUN, [])
        store.add(replace(RUN, build=2, started=NOW + later, finished=RUN.finished + later), [])
        with engine_of(place).begin() as connection:
            row = {"testbed": "2n-clx", "newest_run": evaluated}
            connection.execute(sa.insert(evaluations), row)
        (testbed,) = store.statistics.read().testbeds

    assert lag_s == testbed.lag_s
