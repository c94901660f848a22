"""A rename lets a trace continue under its new name wherever results are read, until it is undone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from perftrend.errors import UsageError
from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.store import Store
from perftrend.store.alerts import Override, Rules

TESTBED = "2n-clx"
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def key_of(test: str, suite: str = "ip4") -> TraceKey:
    return TraceKey.of(testbed=TESTBED, suite=suite, test=test)


def run_of(build: int) -> Run:
    started = MOMENT + timedelta(days=build)
    return Run(TESTBED, "nightly", build, started, started, {"device": f"{build:06x}c"})


def result_of(key: TraceKey, value: float) -> Result:
    return Result(key, "pps", Better.HIGHER, Status.PASS, (value, value), value, details={"bounds": [value]})


def measure(store: Store, build: int, **values: float) -> None:
    store.add(run_of(build), [result_of(key_of(test), value) for test, value in values.items()])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Give three nights of ``old``, then one of ``new``, all of them with ``other``."""
    with Store.open(tmp_path / "store.sqlite") as opened:
        for build in range(3):
            measure(opened, build, old=float(build), other=7.0)
        measure(opened, 3, new=3.0, other=7.0)
        yield opened


def seen(store: Store) -> dict[str, list[float]]:
    """Return the values of each test as series and as points, which agree."""
    series = {each.key["test"]: each for each in store.series(TESTBED)}
    axis = store.tiles.axis(TESTBED)
    traces = store.tiles.traces()
    points = store.tiles.values(axis, [each.trace_id for each in traces], range(len(axis.columns)))
    found = {}
    for trace, row in zip(traces, points.tolist(), strict=True):
        test = trace.key["test"]
        found[test] = row
        if test in series:
            measured = dict(zip((run.build for run in series[test].runs), series[test].samples, strict=True))
            assert repr(row) == repr([float(measured.get(build, math.nan)) for build in range(len(row))])
    assert series.keys() <= found.keys()
    return found


UNNAMED = {
    "old": [0.0, 1.0, 2.0, math.nan],
    "new": [math.nan, math.nan, math.nan, 3.0],
    "other": [7.0] * 4,
}
RENAMED = {"new": [0.0, 1.0, 2.0, 3.0], "other": [7.0] * 4}


def assert_seen(store: Store, expected: dict[str, list[float]]) -> None:
    """Check what is read of the results, and of tiles that are made again."""
    for _ in range(2):
        assert repr(dict(sorted(expected.items()))) == repr(dict(sorted(seen(store).items())))
        store.tiles.remake()
        axis = store.tiles.axis(TESTBED)
        assert len(axis.columns) == axis.whole


def rename(store: Store, old: str, new: str, parameter: str = "test") -> int:
    return store.renames.add(parameter, old, new, author="ann")


def test_history_continues_under_the_new_name_until_it_is_undone(store: Store) -> None:
    assert_seen(store, UNNAMED)

    assert 1 == rename(store, "old", "new")

    assert_seen(store, RENAMED)
    assert {key_of("new"), key_of("other")} == {each.key for each in store.results(run_of(1))}
    assert [{"bounds": [1.0]}] == [each.details for each in store.results(run_of(1)) if each.value == 1.0]
    assert ["test old is new now"] == [str(each) for each in store.renames.all()]

    assert 1 == store.renames.remove("test", "old", author="bob")

    assert_seen(store, UNNAMED)
    assert {key_of("old"), key_of("other")} == {each.key for each in store.results(run_of(1))}
    acts = [(act.user, act.action, act.subject, act.detail) for act in store.activity.newest(2)]
    assert [("bob", "restored", "test old", "was new"), ("ann", "renamed", "test old", "is new now")] == acts


def test_new_name_may_be_measured_after_the_rename(tmp_path: Path) -> None:
    with Store.open(tmp_path / "early.sqlite") as store:
        measure(store, 0, old=0.0)
        rename(store, "old", "new")
        assert_seen(store, {"new": [0.0]})

        measure(store, 1, new=1.0)

        assert_seen(store, {"new": [0.0, 1.0]})


def test_name_that_was_never_measured_goes_with_the_rename(tmp_path: Path) -> None:
    with Store.open(tmp_path / "early.sqlite") as store:
        measure(store, 0, old=0.0)
        rename(store, "old", "new")
        store.renames.remove("test", "old", author="ann")
        measure(store, 1, later=1.0)

        assert_seen(store, {"old": [0.0, math.nan], "later": [math.nan, 1.0]})


def test_run_of_the_old_name_that_comes_later_continues_the_new_one(store: Store) -> None:
    rename(store, "old", "new")

    measure(store, 4, old=4.0)
    store.add(run_of(5), [result_of(key_of("old", suite="l2"), 5.0)])

    assert [0.0, 1.0, 2.0, 3.0, 4.0] == store.series(TESTBED, keys=[key_of("old")])[0].samples.tolist()
    assert key_of("new", suite="l2") in {each.key for each in store.series(TESTBED)}
    assert not store.add(run_of(5), [result_of(key_of("old", suite="l2"), 5.0)])


def test_result_under_the_new_name_counts_in_a_run_of_both(store: Store) -> None:
    measure(store, 4, old=40.0, new=4.0)
    axis = store.tiles.axis(TESTBED)

    rename(store, "old", "new")

    assert [0.0, 1.0, 2.0, 3.0, 4.0] == seen(store)["new"]
    assert [4.0] == [each.value for each in store.results(run_of(4))]
    [new] = [each.trace_id for each in store.tiles.traces() if each.key == key_of("new")]
    assert [4.0] == [result.value for _, result in store.tiles.results(new, axis.columns[4])]
    assert {(new, 0): (0.0, 0.0), (new, 1): (4.0, 4.0)} == store.tiles.samples(
        [new], [axis.columns[0], axis.columns[4]]
    )
    runs = axis.columns[0].runs, axis.columns[4].runs
    assert {(runs[0], new): (0.0, 0.0), (runs[1], new): (4.0, 4.0)} == store.replicates.of(
        {each: [new] for each in runs}
    )


def test_renames_are_applied_one_after_the_other_in_whatever_order(store: Store) -> None:
    measure(store, 4, old=40.0, new=4.0)
    measure(store, 5, newest=5.0)

    rename(store, "new", "newest")
    rename(store, "old", "new")
    rename(store, "ip4", "ip", parameter="suite")

    assert [0.0, 1.0, 2.0, 3.0, 4.0, 5.0] == seen(store)["newest"]
    assert {"ip"} == {each.key["suite"] for each in store.series(TESTBED)}

    store.renames.remove("test", "new", author="ann")
    assert [0.0, 1.0, 2.0, 3.0, 4.0] == seen(store)["new"][:5]


def test_name_that_was_never_measured_may_be_renamed_as_well(store: Store) -> None:
    """The first rename makes a trace of the new test in the old suite, which the second one renames."""
    assert 1 == rename(store, "old", "z")
    assert 3 == rename(store, "ip4", "ip", parameter="suite")
    assert_seen(store, {"z": UNNAMED["old"], "new": UNNAMED["new"], "other": UNNAMED["other"]})

    assert 3 == store.renames.remove("suite", "ip4", author="ann")
    assert 1 == store.renames.remove("test", "old", author="ann")
    assert_seen(store, UNNAMED)


@pytest.mark.parametrize(
    ("parameter", "old", "new", "message"),
    [
        ("test", "old", "old", "test 'old' cannot be renamed to itself"),
        ("test", "new", "x", "test 'new' cannot be renamed to 'x': it is already renamed to 'newer'"),
        ("test", "newer", "new", "test 'newer' cannot be renamed to 'new': 'newer' -> 'new' -> 'newer' is a"),
        ("test", "olt", "new", "the store has no trace with test 'olt'; did you mean 'old'?"),
        ("testbed", TESTBED, "x", "a testbed cannot be renamed"),
        ("suite", "", "x", "the old name is empty"),
        ("test", "old", "", "the new name is empty"),
        ("", "old", "new", "the parameter is empty"),
        ("test", "old", "x" * 1001, "the new name has 1001 characters; write at most 1000"),
        ("test", "old", "a\nb", "characters that cannot be printed"),
        ("test", "old\x00", "b", "characters that cannot be printed"),
        ("test", "old", "slow", "trace suite=ip4,test=old,testbed=2n-clx is in pps, higher is better, but "),
        (
            "test",
            "other",
            "newer",
            "run nightly/3 has results of both suite=ip4,test=other,testbed=2n-clx and suite=ip4,test=new,",
        ),
    ],
)
def test_what_cannot_be_renamed_is_refused(
    store: Store, parameter: str, old: str, new: str, message: str
) -> None:
    measure(store, 4, newer=4.0)
    rename(store, "new", "newer")
    slow = replace(result_of(key_of("slow"), 1.0), unit="us", better=Better.LOWER)
    store.add(run_of(5), [slow])
    before = seen(store)

    with pytest.raises(UsageError) as refused:
        rename(store, old, new, parameter)

    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert 1 == len(store.renames.all())
    assert repr(before) == repr(seen(store))


def test_two_old_names_in_one_run_are_both_named(store: Store) -> None:
    rename(store, "old", "z")

    with pytest.raises(UsageError) as refused:
        rename(store, "other", "z")

    assert (
        "test 'other' cannot be renamed to 'z': run nightly/0 has results of both "
        "suite=ip4,test=old,testbed=2n-clx and suite=ip4,test=other,testbed=2n-clx"
    ) == str(refused.value)


def test_name_that_is_not_renamed_cannot_be_undone(store: Store) -> None:
    rename(store, "old", "new")

    with pytest.raises(UsageError, match="test 'olt' is not renamed; did you mean 'old'"):
        store.renames.remove("test", "olt", author="ann")


def test_measurement_in_another_unit_stays_a_trace_of_its_own(store: Store) -> None:
    rename(store, "old", "new")
    slow = [replace(result_of(key_of("old", suite), 1.0), unit="us") for suite in ("a", "b")]
    store.add(run_of(4), [result_of(key_of("new", "a"), 1.0)])

    store.add(run_of(5), slow)

    found = {each.key: each.unit for each in store.series(TESTBED)}
    assert "us" == found[key_of("old", "a")] == found[key_of("new", "b")]


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
@hypothesis_settings(
    max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_whatever_is_stated_is_renamed_or_refused(store: Store, parameter: str, old: str, new: str) -> None:
    with pytest.raises(UsageError):
        rename(store, old, new, parameter)


def test_result_of_the_old_name_is_marked_by_either_name(store: Store) -> None:
    rename(store, "old", "new")
    for selection in ({"test": "old"}, {"test": "new"}, {"trace": key_of("new").hash}):
        store.invalidations.add(run_of(1), "noise", author="ann", **selection)

        assert [key_of("new")] == [each.key for each in store.invalidations.of_testbed(TESTBED)]
        assert_seen(store, {**RENAMED, "new": [0.0, math.nan, 2.0, 3.0]})

        store.invalidations.remove(run_of(1), author="ann", **selection)


def test_points_of_coarser_scales_have_the_old_name(tmp_path: Path) -> None:
    with Store.open(tmp_path / "large.sqlite") as store:
        nights = [(run_of(each), [result_of(key_of("old"), float(each))]) for each in range(130)]
        store.add_all(nights)
        rename(store, "old", "new")
        [trace] = store.tiles.traces()
        store.tiles.remake()

        points = store.tiles.points(store.tiles.axis(TESTBED), [trace.trace_id], 1, range(1))

    assert (key_of("new"), 4, 1.5) == (trace.key, points.count[0, 0], points.mean[0, 0])


def test_runs_that_come_after_the_rename_are_in_the_tiles_at_once(store: Store) -> None:
    rename(store, "old", "new")
    store.tiles.remake()

    measure(store, 4, old=4.0)

    axis = store.tiles.axis(TESTBED)
    assert 5 == axis.whole == len(axis.columns)
    assert [0.0, 1.0, 2.0, 3.0, 4.0] == seen(store)["new"]


def test_overrides_and_findings_follow_the_rename(store: Store) -> None:
    alert = store.alerts.add(Rules("all", ""), user="ann")
    muted = Override(alert.identity, key_of("old").hash, muted_until=MOMENT, reason="known")
    store.alerts.override(muted, version=1, user="ann")

    rename(store, "old", "new")

    [found] = store.alerts.overrides(alert.identity)
    assert (key_of("new").hash, "known") == (found.trace, found.reason)

    store.alerts.override(Override(alert.identity, key_of("new").hash), version=2, user="ann")
    assert [] == store.alerts.overrides()


def test_old_hash_is_the_new_trace(store: Store) -> None:
    rename(store, "old", "new")
    hashes = [key_of(test).hash for test in ("old", "new", "other")]

    assert dict(zip(hashes, map(key_of, ("new", "new", "other")), strict=True)) == store.clusters.traces(
        hashes
    )
