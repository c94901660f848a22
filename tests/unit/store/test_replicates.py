"""Samples of many traces come together, those alone that may enter a trend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.store import Store

FIRST = datetime(2026, 1, 2, tzinfo=UTC)
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.sqlite") as opened:
        yield opened


def add(store: Store, job: str, hours: int, *results: Result) -> None:
    started = FIRST + timedelta(hours=hours)
    store.add(Run("1n", job, 1, started, started, {"device": COMMIT}), results)


def result(test: str, *samples: float) -> Result:
    key = TraceKey.of(testbed="1n", test=test, metric="mrr")
    return Result(key, "pps", Better.HIGHER, Status.PASS, samples, sum(samples) / len(samples))


def test_samples_of_all_runs_of_a_column_come_in_the_order_of_time(store: Store) -> None:
    add(store, "late", 2, result("a", 3.0))
    add(store, "early", 1, result("a", 1.0, 2.0), result("b", 9.0))
    [column] = store.tiles.axis("1n").columns
    ids = {trace.key["test"]: trace.trace_id for trace in store.tiles.traces()}

    found = store.replicates.of({column.runs: [ids["a"], ids["b"], 77]})

    assert {(column.runs, ids["a"]): (1.0, 2.0, 3.0), (column.runs, ids["b"]): (9.0,)} == found


def test_samples_that_may_not_enter_a_trend_are_left_out(store: Store) -> None:
    failed = replace(result("a", 1.0), status=Status.FAIL)
    add(store, "nightly", 1, failed, replace(result("b", 2.0), invalid="generator too slow"))
    [column] = store.tiles.axis("1n").columns

    assert {} == store.replicates.of({column.runs: [1, 2]})


def test_more_traces_than_a_query_takes_are_no_matter(store: Store) -> None:
    add(store, "nightly", 1, *(result(str(number), float(number)) for number in range(1, 1202)))
    [column] = store.tiles.axis("1n").columns
    ids = [trace.trace_id for trace in store.tiles.traces()]

    assert 1201 == len(store.replicates.of({column.runs: ids}))
