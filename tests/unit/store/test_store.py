"""What goes into the store comes out of it, once and as it was."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from perftrend.errors import StoreError
from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.store import Store, rows
from perftrend.store.connection import read_transaction
from perftrend.store.rows import pack_samples, trace_of_row, unpack_samples
from perftrend.store.schema import details

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)


def run_of(build: int, *, testbed: str = "1n-veth", job: str = "trending") -> Run:
    started = MOMENT + timedelta(days=build)
    return Run(testbed, job, build, started, started + timedelta(hours=1))


def result_of(
    test: str = "a", value: float = 1.0, *, metric: str = "mrr", testbed: str = "1n-veth"
) -> Result:
    key = TraceKey.of(testbed=testbed, test=test, metric=metric)
    return Result(key, "pps", Better.HIGHER, Status.PASS, (value, value + 1.0), value)


FAILED = replace(result_of(), status=Status.FAIL, samples=(), value=math.nan, message="no\ncarrier")
NOT_VALID = replace(result_of(), invalid="generator too slow")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.sqlite") as opened:
        yield opened


@given(st.lists(st.floats(allow_nan=False)).map(tuple))
def test_samples_survive_packing(samples: tuple[float, ...]) -> None:
    assert samples == unpack_samples(pack_samples(samples))


def test_results_come_back_with_everything(store: Store) -> None:
    full = replace(result_of(), details={"trials": [{"sent": 1}], "counters": "é"})
    other = replace(result_of("b"), better=Better.LOWER, unit="s", invalid="why")
    store.add(run_of(1), [full, other])

    assert [full, other] == store.results(run_of(1))


def test_environment_of_a_run_is_stored_and_equal_ones_are_one_object(store: Store) -> None:
    known = {"dut: kernel": "6.1 é", "dut: cores": "8"}
    for build in (1, 2):
        store.add(replace(run_of(build), environment=dict(known)), [result_of()])
    store.add(run_of(3), [result_of()])

    first, second, third = store.runs("1n-veth")

    assert (known, {}) == (first.environment, third.environment)
    assert first.environment is second.environment


def test_details_that_results_share_are_stored_once(store: Store) -> None:
    ndr, pdr, other = (
        replace(result_of(metric=metric), details=found)
        for metric, found in (("ndr", {"phases": [1]}), ("pdr", {"phases": [1]}), ("x", {"phases": [True]}))
    )
    none = result_of("b")
    store.add(run_of(1), [ndr, pdr, other, none])
    store.add(run_of(2), [none, pdr])

    assert [ndr, pdr, other, none] == store.results(run_of(1))
    assert {each.key: each for each in (pdr, none)} == {each.key: each for each in store.results(run_of(2))}
    assert "True" in str(store.results(run_of(1))[2].details)
    with read_transaction(store._engine) as connection:
        rows = connection.execute(sa.select(details).order_by(details.c.run_id, details.c.trace_id)).all()
    assert [{"phases": [1]}, rows[0].trace_id, {"phases": [True]}, {"phases": [1]}] == [
        row.details for row in rows
    ]


def test_result_without_a_value_has_none_again(store: Store) -> None:
    store.add(run_of(1), [FAILED])

    [result] = store.results(run_of(1))
    assert math.isnan(result.value)
    assert (Status.FAIL, "no\ncarrier", ()) == (result.status, result.message, result.samples)


def test_run_comes_back_with_its_times_in_utc(store: Store) -> None:
    east = timezone(timedelta(hours=5, minutes=30))
    run = replace(
        run_of(1),
        started=MOMENT.astimezone(east),
        versions={"device": "abc"},
        archive="https://logs/1",
        simulated=True,
    )
    store.add(run, [])

    [stored] = store.runs("1n-veth")
    assert run == stored
    assert timedelta(0) == stored.started.utcoffset()


def test_second_entry_of_a_run_changes_nothing(store: Store) -> None:
    assert store.add(run_of(1), [result_of(value=1.0)])

    assert not store.add(run_of(1), [result_of(value=2.0), result_of("b")])
    assert [result_of(value=1.0)] == store.results(run_of(1))
    assert 1 == len(store.series("1n-veth"))


def test_build_of_another_job_or_testbed_is_another_run(store: Store) -> None:
    assert store.add(run_of(1), [])
    assert store.add(run_of(1, job="perftest"), [])
    assert store.add(run_of(1, testbed="2n-clx"), [])


def test_two_results_of_one_trace_are_refused(store: Store) -> None:
    with pytest.raises(StoreError, match=r"run trending/1: two results have the same trace, metric=mrr"):
        store.add(run_of(1), [result_of(), result_of(value=2.0)])

    assert [] == store.runs("1n-veth")


def test_unit_of_a_trace_does_not_change(store: Store) -> None:
    store.add(run_of(1), [result_of()])

    with pytest.raises(StoreError, match="is in pps, higher is better; now it is in s, lower is better"):
        store.add(run_of(2), [result_of("new"), replace(result_of(), unit="s", better=Better.LOWER)])
    assert [run_of(1)] == store.runs("1n-veth")
    assert 1 == len(store.series("1n-veth"))


def test_many_runs_enter_together_with_their_tiles(store: Store) -> None:
    store.add(run_of(2), [result_of(value=2.0)])
    added = store.add_all((run_of(build), [result_of(value=float(build))]) for build in (3, 1, 2))

    assert 2 == added
    assert [run_of(1), run_of(2), run_of(3)] == store.runs("1n-veth")
    axis = store.tiles.axis("1n-veth")
    assert 3 == axis.whole
    assert [[1.0, 2.0, 3.0]] == store.tiles.values(axis, [1], range(3)).tolist()


def test_many_runs_enter_all_or_none(store: Store) -> None:
    with pytest.raises(StoreError, match="two results have the same trace"):
        store.add_all([(run_of(1), [result_of()]), (run_of(2), [result_of(), result_of()])])

    assert [] == store.runs("1n-veth")
    assert 0 == store.add_all([])


def test_series_holds_the_values_in_the_order_of_time(store: Store) -> None:
    for build in (3, 1, 2):
        store.add(run_of(build), [result_of(value=10.0 * build)])

    [series] = store.series("1n-veth")
    assert [10.0, 20.0, 30.0] == series.samples.tolist()
    assert (run_of(1), run_of(2), run_of(3)) == series.runs
    assert (10.0, 11.0) == series.results[0].samples
    assert ("pps", Better.HIGHER, result_of().key) == (series.unit, series.better, series.key)


def test_value_that_may_not_enter_the_trend_is_nan_with_its_result(store: Store) -> None:
    for build, result in enumerate([result_of(), FAILED, NOT_VALID], start=1):
        store.add(run_of(build), [result])

    [series] = store.series("1n-veth")
    np.testing.assert_array_equal([1.0, math.nan, math.nan], series.samples)
    assert ["", "no\ncarrier", ""] == [result.message for result in series.results]
    assert ["", "", "generator too slow"] == [result.invalid for result in series.results]


def test_run_that_did_not_try_a_trace_is_not_in_its_series(store: Store) -> None:
    store.add(run_of(1), [result_of("a"), result_of("b")])
    store.add(run_of(2), [result_of("b")])
    store.add(run_of(3), [result_of("a")])

    a, b = store.series("1n-veth")
    assert [1, 3] == [run.build for run in a.runs]
    assert [1, 2] == [run.build for run in b.runs]


def test_last_counts_the_runs_of_the_testbed(store: Store) -> None:
    """A trace that the newest runs did not try is not looked for further back."""
    store.add(run_of(1), [result_of("old")])
    for build in (2, 3, 4):
        store.add(run_of(build), [result_of("a", build)])

    [series] = store.series("1n-veth", last=2)
    assert [3.0, 4.0] == series.samples.tolist()
    assert [run_of(3), run_of(4)] == store.runs("1n-veth", last=2)


def test_series_until_a_run_leaves_later_ones_out(store: Store) -> None:
    for build in (1, 2, 3):
        store.add(run_of(build), [result_of("a", build)])

    [series] = store.series("1n-veth", last=1, until=run_of(2))
    assert [2.0] == series.samples.tolist()


def test_series_are_those_with_the_parameters_asked_for(store: Store) -> None:
    store.add(run_of(1), [result_of(test, metric=metric) for test in "ab" for metric in ("ndr", "pdr")])

    chosen = store.series("1n-veth", where={"metric": "pdr", "test": "b"})
    assert ["metric=pdr,test=b,testbed=1n-veth"] == [str(series.key) for series in chosen]
    assert [] == store.series("1n-veth", where={"metric": "soak"})


def test_testbeds_do_not_mix(store: Store) -> None:
    store.add(run_of(1), [result_of()])
    store.add(run_of(1, testbed="2n-clx"), [result_of(testbed="2n-clx")])

    assert ["2n-clx"] == [series.key["testbed"] for series in store.series("2n-clx")]
    assert [] == store.series("unknown")
    assert [] == store.runs("unknown")


def test_weekly_trace_has_its_own_last_runs(store: Store) -> None:
    """Between two weekly runs lie six nightly ones, and the history is as long as a fortnight's."""
    for build in range(1, 71):
        of_week = [result_of("weekly", 100.0 + build)] if build % 7 == 0 else []
        store.add(run_of(build), [result_of("nightly", float(build)), *of_week])

    nightly, weekly = store.series("1n-veth", last=14)
    assert [float(build) for build in range(57, 71)] == nightly.samples.tolist()
    assert [100.0 + build for build in range(7, 71, 7)] == weekly.samples.tolist()
    assert [100.0 + build for build in range(56, 71, 7)] == store.series("1n-veth", last=3, until=run_of(70))[
        1
    ].samples.tolist()


def test_runs_of_other_tests_take_no_history_away(store: Store) -> None:
    for build in range(1, 21):
        store.add(run_of(build), [result_of("nightly", float(build))])
    for build in range(21, 120):
        store.add(run_of(build, job="by hand"), [result_of("another", float(build))])

    [another] = store.series("1n-veth", last=10)
    assert [float(build) for build in range(110, 120)] == another.samples.tolist()

    store.add(run_of(120), [result_of("nightly", 120.0)])
    nightly = store.series("1n-veth", last=10)[1]
    assert [*(float(build) for build in range(12, 21)), 120.0] == nightly.samples.tolist()
    assert [run_of(build) for build in (*range(12, 21), 120)] == list(nightly.runs)


def test_trace_that_the_job_lost_since_its_run_before_is_there(store: Store) -> None:
    weekly = {"job": "weekly"}
    store.add(run_of(1, **weekly), [result_of("kept"), result_of("lost", 7.0)])
    for build in range(2, 30):
        store.add(run_of(build), [result_of("nightly")])
    store.add(run_of(30, **weekly), [result_of("kept")])

    assert ["kept", "lost", "nightly"] == [
        series.key["test"] for series in store.series("1n-veth", last=5, until=run_of(30, **weekly))
    ]


def test_traces_that_are_named_are_there_however_old_they_are(store: Store) -> None:
    store.add(run_of(1), [result_of("old", 7.0), result_of("older")])
    for build in range(2, 30):
        store.add(run_of(build), [result_of("nightly")])

    found = store.series("1n-veth", last=5, keys=[result_of("old").key, result_of("never").key])
    assert ["old"] == [series.key["test"] for series in found]
    assert [7.0] == found[0].samples.tolist()


def test_named_trace_has_its_newest_runs(store: Store) -> None:
    for build in range(1, 21):
        store.add(run_of(build), [result_of("a", float(build)), result_of("b")])

    [series] = store.series("1n-veth", last=3, keys=[result_of("a").key])
    assert [18.0, 19.0, 20.0] == series.samples.tolist()
    assert [] == store.series("1n-veth", keys=[])


def test_traces_of_other_testbeds_are_not_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of a hundred testbeds has a hundred times as many traces as the question needs."""
    store.add(run_of(1), [result_of("a")])
    for number in range(2, 30):
        store.add(run_of(number, testbed=f"t{number}"), [result_of(f"x{number}", testbed=f"t{number}")])
    read: list[str] = []

    def count(row: sa.Row[Any]) -> tuple[TraceKey, str, Better]:
        read.append(row.parameters)
        return trace_of_row(row)

    monkeypatch.setattr(rows, "trace_of_row", count)
    [series] = store.series("1n-veth")

    assert [series.key.json] == read


def test_traces_are_chosen_before_their_history_is_read(store: Store) -> None:
    for build in range(1, 31):
        store.add(run_of(build), [result_of("a", metric="ndr" if build % 5 else "pdr")])

    [series] = store.series("1n-veth", last=4, where={"metric": "pdr"})
    assert "pdr" == series.key["metric"]
    assert [run_of(build) for build in (15, 20, 25, 30)] == list(series.runs)


def test_build_number_is_one_more_than_the_greatest(store: Store) -> None:
    for build in (5, 3):
        store.add(run_of(build), [])

    assert [6, 7, 10] == [store.allocate_build_number("trending", above=above) for above in (0, 0, 9)]
    assert 1 == store.allocate_build_number("another")
    store.add(run_of(20), [])
    assert 21 == store.allocate_build_number("trending")


def test_jobs_that_start_at_once_get_numbers_of_their_own(tmp_path: Path) -> None:
    place = tmp_path / "store.sqlite"
    Store.open(place).close()
    at_once = Barrier(8)

    def take(_: int) -> int:
        with Store.open(place) as store:
            at_once.wait()
            return store.allocate_build_number("trending")

    with ThreadPoolExecutor(8) as pool:
        assert [*range(1, 9)] == sorted(pool.map(take, range(8)))


def test_result_without_a_value_takes_the_unit_of_its_trace(store: Store) -> None:
    """A test that failed before it measured has only the unit that its name suggests."""
    store.add(run_of(1), [result_of()])
    store.add(run_of(2), [replace(result_of(), unit="rps", samples=(), value=math.nan, invalid="it failed")])

    [series] = store.series("1n-veth")
    assert ("pps", 2) == (series.unit, len(series.runs))
