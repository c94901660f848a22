"""The replicates behind points."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.store import Store

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
KEY, OTHER = TraceKey.of(test="a"), TraceKey.of(test="b")


def run(build: int, job: str = "nightly") -> Run:
    started = MOMENT + timedelta(days=build)
    return Run("2n-clx", job, build, started, started, {"device": f"{build:06x}c"})


def result(*samples: float, key: TraceKey = KEY) -> Result:
    return Result(key, "pps", Better.HIGHER, Status.PASS, samples, sum(samples) / len(samples))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.sqlite") as opened:
        yield opened


def test_replicates_of_all_runs_of_a_commit_stand_together(store: Store) -> None:
    store.add(run(1), [result(1.0, 2.0), result(7.0, key=OTHER)])
    store.add(run(1, job="weekly"), [result(3.0)])
    store.add(run(2), [result(4.0, 5.0)])
    columns = store.tiles.axis("2n-clx").columns

    assert store.tiles.samples([1], columns) == {(1, 0): (1.0, 2.0, 3.0), (1, 1): (4.0, 5.0)}
    assert store.tiles.samples([1, 2], columns[1:]) == {(1, 0): (4.0, 5.0)}


def test_what_may_not_enter_a_trend_has_no_replicates(store: Store) -> None:
    store.add(run(1), [replace(result(1.0), invalid="the generator was disturbed")])
    store.add(run(2), [replace(result(1.0), status=Status.FAIL)])

    assert store.tiles.samples([1], store.tiles.axis("2n-clx").columns) == {}


def test_testbed_with_a_simulated_run_is_told(store: Store) -> None:
    store.add(run(1), [])
    assert not store.tiles.has_simulated("2n-clx")

    store.add(replace(run(2), simulated=True), [])
    assert store.tiles.has_simulated("2n-clx")
    assert not store.tiles.has_simulated("3n-skx")
