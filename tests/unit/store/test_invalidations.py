"""A mark takes results out of everything that is made of them, and its removal brings them back."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perftrend.errors import UsageError
from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.store import Store
from perftrend.store.tiles import POINTS

TESTBED = "2n-clx"
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = [TraceKey.of(testbed=TESTBED, test=test) for test in ("ip4", "l2")]


def run_of(build: int) -> Run:
    started = MOMENT + timedelta(days=build)
    return Run(TESTBED, "nightly", build, started, started, {"device": f"{build:06x}c"})


def result_of(key: TraceKey, value: float) -> Result:
    return Result(key, "pps", Better.HIGHER, Status.PASS, (value, value), value)


def fill(store: Store, nights: int) -> None:
    store.add_all((run_of(build), [result_of(key, float(build)) for key in KEYS]) for build in range(nights))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.sqlite") as opened:
        fill(opened, 4)
        yield opened


def series(store: Store) -> list[list[float]]:
    return [each.samples.tolist() for each in store.series(TESTBED)]


def tiles(store: Store) -> list[list[float]]:
    axis = store.tiles.axis(TESTBED)
    assert axis.whole == len(axis.columns)
    ids = [trace.trace_id for trace in store.tiles.traces()]
    return store.tiles.values(axis, ids, range(len(axis.columns))).tolist()  # type: ignore[no-any-return]


def assert_values(store: Store, *expected: list[float]) -> None:
    for found in (series(store), tiles(store)):
        assert repr(list(expected)) == repr(found)


def test_marked_run_leaves_trends_and_tiles_until_it_is_restored(store: Store) -> None:
    before = store.tiles.axis(TESTBED).version
    store.invalidations.add(run_of(2), "a fan\n failed", author="ann")

    assert_values(store, [0.0, 1.0, math.nan, 3.0], [0.0, 1.0, math.nan, 3.0])
    assert before != store.tiles.axis(TESTBED).version
    assert {"marked as invalid by ann: a fan failed"} == {each.invalid for each in store.results(run_of(2))}
    assert {(2.0, 2.0)} == {each.samples for each in store.results(run_of(2))}
    [mark] = store.invalidations.of_testbed(TESTBED)
    assert (run_of(2), None, "a fan failed", "ann") == (mark.run, mark.key, mark.reason, mark.author)

    store.invalidations.remove(run_of(2), author="bob")

    assert_values(store, [0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 3.0])
    assert [] == store.invalidations.of_testbed(TESTBED)
    acts = [(act.user, act.action, act.subject, act.detail) for act in store.activity.newest(9)]
    assert [
        ("bob", "restored", "run nightly/2", "was invalid: a fan failed"),
        ("ann", "invalidated", "run nightly/2", "a fan failed"),
    ] == acts


@pytest.mark.parametrize("selection", [{"test": "l2"}, {"trace": KEYS[1].hash}])
def test_single_result_is_marked(store: Store, selection: dict[str, str]) -> None:
    store.invalidations.add(run_of(3), "noise", author="ann", **selection)

    assert_values(store, [0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, math.nan])
    assert [KEYS[1]] == [mark.key for mark in store.invalidations.of_testbed(TESTBED)]
    assert [("", True), ("marked as invalid by ann: noise", False)] == [
        (each.invalid, each.usable) for each in store.results(run_of(3))
    ]
    axis = store.tiles.axis(TESTBED)
    ids = [trace.trace_id for trace in store.tiles.traces()]
    assert {(ids[0], 0)} == set(store.tiles.samples(ids, axis.columns[3:]))
    assert {(axis.columns[3].runs, ids[0])} == set(store.replicates.of({axis.columns[3].runs: ids}))
    assert ["marked as invalid by ann: noise"] == [
        result.invalid for _, result in store.tiles.results(ids[1], axis.columns[3])
    ]

    store.invalidations.remove(run_of(3), author="ann", **selection)
    assert_values(store, [0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 3.0])


def test_points_of_coarser_scales_are_made_again(tmp_path: Path) -> None:
    with Store.open(tmp_path / "large.sqlite") as store:
        fill(store, POINTS + 4)
        axis = store.tiles.axis(TESTBED)
        store.invalidations.add(run_of(2), "noise", author="ann")

        points = store.tiles.points(axis, [1], 1, range(1))

    assert (3, (0 + 1 + 3) / 3) == (points.count[0, 0], points.mean[0, 0])


def test_run_that_is_entered_again_stays_marked(store: Store) -> None:
    store.invalidations.add(run_of(2), "noise", author="ann")

    assert not store.add(run_of(2), [result_of(key, 2.0) for key in KEYS])
    store.add(run_of(4), [result_of(key, 4.0) for key in KEYS])
    store.tiles.forget()
    store.tiles.remake()
    assert_values(store, *[[0.0, 1.0, math.nan, 3.0, 4.0]] * 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"run": run_of(9)}, "the store has no run nightly/9 on 2n-clx"),
        ({"reason": " \n"}, "the reason is empty"),
        ({"reason": "x" * 1001}, "1001 characters"),
        ({"test": "l3"}, "run nightly/2 has no result of test l3"),
        ({"trace": "abc"}, "run nightly/2 has no result of trace abc"),
        ({"run": run_of(1)}, "run nightly/1 is already marked as invalid"),
    ],
)
def test_what_cannot_be_marked_is_refused(store: Store, arguments: dict[str, object], message: str) -> None:
    store.invalidations.add(run_of(1), "noise", author="ann")

    with pytest.raises(UsageError, match=message):
        store.invalidations.add(**{"run": run_of(2), "reason": "noise", "author": "ann", **arguments})  # type: ignore[arg-type]
    assert 1 == len(store.invalidations.of_testbed(TESTBED))


def test_valid_run_cannot_be_restored(store: Store) -> None:
    store.invalidations.add(run_of(2), "noise", author="ann", test="l2")

    with pytest.raises(UsageError, match="run nightly/2 is not marked as invalid"):
        store.invalidations.remove(run_of(2), author="ann")
