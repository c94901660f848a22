"""A build number that a job uses again is another run; the same run, stored again, is not."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations
from pathlib import Path
from threading import Barrier

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.store import Store

MOMENT = datetime(2026, 3, 2, 18, tzinfo=UTC)
HOUR = timedelta(hours=1)


def run_at(hours: float, *, build: int = 1, told_hours: float | None = None) -> Run:
    """Return a run whose suites began so many hours after a moment, and took one."""
    began = MOMENT + hours * HOUR
    told = MOMENT + (hours if told_hours is None else told_hours) * HOUR
    return Run(
        "2n-clx", "nightly", build, told, told + HOUR, suites_started=began, suites_finished=began + HOUR
    )


def untimed(run: Run) -> Run:
    return replace(run, suites_started=None, suites_finished=None)


def result_of(value: float) -> Result:
    key = TraceKey.of(testbed="2n-clx", test="a", metric="mrr")
    return Result(key, "pps", Better.HIGHER, Status.PASS, (value, value + 1), value)


FAILED = replace(result_of(0.0), status=Status.FAIL, samples=())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.sqlite") as opened:
        yield opened


def values(store: Store) -> list[float]:
    return [value for series in store.series("2n-clx") for value in series.samples.tolist()]


def test_job_that_counts_anew_loses_no_run(store: Store) -> None:
    first, second = run_at(0), run_at(240)
    assert store.add(first, [result_of(10)])
    assert store.add(second, [result_of(20)])

    assert [10, 20] == values(store)
    assert [first, second] == store.executions(second)
    assert second == store.run("nightly", 1)
    assert [[10], [20]] == [[each.value for each in store.results(run)] for run in (first, second)]
    axis = store.tiles.axis("2n-clx")
    assert [[10, 20]] == store.tiles.values(axis, [1], range(2)).tolist()


@pytest.mark.parametrize(
    "again",
    [
        run_at(0),
        run_at(0, told_hours=-0.2),  # a Jenkins knows when it started the build, not the suites
        run_at(0.01),  # a file for each test knows when the tests started
        run_at(0, told_hours=-8),  # a machine whose clock goes by another zone
    ],
)
def test_execution_that_is_told_again_changes_nothing(store: Store, again: Run) -> None:
    store.add(run_at(0), [result_of(10)])

    assert not store.add(again, [result_of(10), replace(result_of(5), key=TraceKey.of(test="new"))])
    assert [10] == values(store)
    assert [result_of(10)] == store.results(again)


@pytest.mark.parametrize("before", [untimed(run_at(0, told_hours=-3)), run_at(0, told_hours=-3)])
@pytest.mark.parametrize("after", [untimed(run_at(0)), run_at(0)])
def test_run_without_times_is_known_by_its_samples(store: Store, before: Run, after: Run) -> None:
    store.add(before, [result_of(10), replace(FAILED, key=TraceKey.of(test="failed"))])

    assert not store.add(after, [result_of(10)])
    assert [before.started] == [run.started for run in store.runs("2n-clx")]


@pytest.mark.parametrize("results", [[result_of(20)], [], [FAILED]])
def test_run_without_times_and_with_other_samples_is_another(store: Store, results: list[Result]) -> None:
    store.add(untimed(run_at(0)), [result_of(10)])

    assert store.add(untimed(run_at(240)), results)
    assert 2 == len(store.runs("2n-clx"))


def test_nothing_measured_twice_is_not_the_same(store: Store) -> None:
    store.add(untimed(run_at(0)), [FAILED])

    assert store.add(untimed(run_at(24)), [FAILED])


def test_run_that_is_known_by_its_samples_gets_its_times(store: Store) -> None:
    store.add(untimed(run_at(0, told_hours=-3)), [result_of(10)])
    store.add(run_at(0), [result_of(10)])

    [stored] = store.runs("2n-clx")
    assert (MOMENT, MOMENT + HOUR) == (stored.suites_started, stored.suites_finished)
    assert store.add(run_at(240), [result_of(10)])


def test_build_that_is_given_another_output_later_is_the_same(store: Store) -> None:
    store.add(run_at(0, told_hours=-1), [result_of(10)])

    assert not store.add(run_at(5, told_hours=-1), [result_of(20)])


@given(st.data())
def test_order_and_repetition_do_not_matter(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    told = [run_at(100 * at, build=build) for at, build in ((0, 1), (1, 2), (2, 1), (3, 1), (4, 3))]
    chosen = data.draw(st.permutations([*told, *data.draw(st.lists(st.sampled_from(told), max_size=5))]))
    place = tmp_path_factory.mktemp("order") / "store.sqlite"
    for run in chosen:
        with Store.open(place) as store:
            store.add(run, [result_of((run.started - MOMENT) / HOUR)])

    with Store.open(place) as store:
        assert told == store.runs("2n-clx")
        assert [0, 100, 200, 300, 400] == values(store)
        axis = store.tiles.axis("2n-clx")
        assert [[0, 100, 200, 300, 400]] == store.tiles.values(axis, [1], range(5)).tolist()


def test_routes_of_one_execution_may_come_in_any_order(tmp_path: Path) -> None:
    routes = [run_at(0), run_at(0, told_hours=-0.2), run_at(0.01), untimed(run_at(0))]
    for number, order in enumerate(permutations(routes)):
        with Store.open(tmp_path / f"{number}.sqlite") as store:
            assert [True, False, False, False] == [store.add(run, [result_of(10)]) for run in order]


def test_routes_of_one_execution_may_come_at_once(tmp_path: Path) -> None:
    place = tmp_path / "store.sqlite"
    Store.open(place).close()
    at_once = Barrier(6)

    def add(number: int) -> bool:
        with Store.open(place) as store:
            at_once.wait()
            return store.add(run_at(0, told_hours=-0.01 * number), [result_of(10)])

    with ThreadPoolExecutor(6) as pool:
        assert 1 == list(pool.map(add, range(6))).count(True)
    with Store.open(place) as store:
        assert [10] == values(store)
