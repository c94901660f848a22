"""Per-patch tests are stored as far as they are, and apart from the runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perftrend.errors import UsageError
from perftrend.model import Better
from perftrend.store import Store
from perftrend.store.verdicts import PatchTest, PatchTrace

BEGIN = datetime(2026, 3, 2, 18, tzinfo=UTC)
JOB = "perftrend-perftest-2n-clx"
TEST = PatchTest(
    JOB, 7, "2n-clx", "a" * 40, "b" * 40, BEGIN, BEGIN + timedelta(hours=1), 2, change=1234, patch_set=3,
    sentence="All is well.", page="https://review.example/1234", archive="/archives/7",
)  # fmt: skip


def trace(test: str = "ip4", *, rounds: int = 2) -> PatchTrace:
    parent, current = (tuple((level + n, level) for n in range(rounds)) for level in (0.1, 0.2))
    return PatchTrace(test, "pps", Better.HIGHER, "no difference", parent, current)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.sqlite") as opened:
        yield opened


def in_progress(rounds: int) -> PatchTest:
    return replace(TEST, rounds=rounds, ended=False, updated=BEGIN + timedelta(minutes=rounds))


def only(store: Store) -> tuple[PatchTest, list[PatchTrace]]:
    [found] = store.patch_tests.newest(10)
    return found, store.patch_tests.traces(found)


def test_test_is_found_by_its_build_and_by_its_patch_set(store: Store) -> None:
    traces = [trace("l2"), trace("ip4")]
    assert store.patch_tests.add(TEST, traces)

    assert TEST == store.patch_tests.of_build(JOB, 7) == store.patch_tests.of_patch_set(1234, 3)
    assert traces == store.patch_tests.traces(TEST)
    assert store.patch_tests.of_build(JOB, 8) is None
    assert store.patch_tests.of_patch_set(1234, 2) is None


def test_same_test_is_stored_once(store: Store) -> None:
    store.patch_tests.add(TEST, [trace()])

    assert not store.patch_tests.add(TEST, [trace()])
    assert (TEST, [trace()]) == only(store)


def test_test_in_progress_grows_until_it_has_ended(store: Store) -> None:
    for rounds in (1, 2):
        assert store.patch_tests.add(in_progress(rounds), [trace(rounds=rounds)])
        assert (in_progress(rounds), [trace(rounds=rounds)]) == only(store)

    assert store.patch_tests.add(TEST, [trace()])
    assert (TEST, [trace()]) == only(store)


def test_earlier_state_that_comes_late_changes_nothing(store: Store) -> None:
    store.patch_tests.add(TEST, [trace()])

    assert not store.patch_tests.add(in_progress(1), [trace(rounds=1)])
    assert not store.patch_tests.add(in_progress(2), [trace()])
    assert (TEST, [trace()]) == only(store)


def test_build_that_fails_in_a_later_round_loses_no_round(store: Store) -> None:
    store.patch_tests.add(in_progress(2), [trace()])
    failed = replace(TEST, started=BEGIN + timedelta(hours=2), rounds=0, sentence="The patch does not start.")

    assert store.patch_tests.add(failed, [])
    assert (replace(failed, started=BEGIN, rounds=2), [trace()]) == only(store)


def test_test_that_goes_on_after_its_end_is_the_same(store: Store) -> None:
    store.patch_tests.add(TEST, [trace()])
    longer = replace(TEST, rounds=4, updated=BEGIN + timedelta(hours=2))

    assert store.patch_tests.add(longer, [trace(rounds=4)])
    assert (longer, [trace(rounds=4)]) == only(store)


@pytest.mark.parametrize(
    "other",
    [{"build": 8}, {"job": "other"}, {"testbed": "3n-icx"}, {"started": BEGIN + timedelta(days=1)}],
    ids=str,
)
def test_another_execution_is_another_test(store: Store, other: dict[str, object]) -> None:
    store.patch_tests.add(TEST, [trace()])

    assert store.patch_tests.add(replace(TEST, **other), [trace("l2")])  # type: ignore[arg-type]  # values of several types
    assert 2 == len(store.patch_tests.newest(10))


def test_tests_are_listed_the_newest_first(store: Store) -> None:
    for build, hours in ((1, 2), (2, 3), (3, 1)):
        store.patch_tests.add(replace(TEST, build=build, updated=BEGIN + timedelta(hours=hours)), [])

    assert [2, 1] == [each.build for each in store.patch_tests.newest(2)]


def test_archive_of_a_test_is_known(store: Store) -> None:
    store.patch_tests.add(TEST, [trace()], version="1")
    assert {"/archives/7": "1"} == store.archives.versions(JOB)

    store.patch_tests.add(TEST, [trace()], version="2")
    assert {"/archives/7": "2"} == store.archives.versions(JOB)


def test_test_in_progress_is_read_again_if_its_version_is_unknown(store: Store) -> None:
    store.patch_tests.add(in_progress(1), [trace(rounds=1)])
    assert {} == store.archives.versions(JOB)

    store.patch_tests.add(in_progress(2), [trace()], version="1")
    assert {"/archives/7": "1"} == store.archives.versions(JOB)


def test_test_is_in_no_trend_and_no_tile(store: Store) -> None:
    store.patch_tests.add(TEST, [trace()])

    assert [] == store.runs("2n-clx")
    assert [] == store.series("2n-clx")
    assert () == tuple(store.tiles.testbeds())
    assert [] == list(store.tiles.traces())


def test_marked_test_is_not_listed_until_it_is_restored(store: Store) -> None:
    store.patch_tests.add(TEST, [trace()])
    store.patch_tests.invalidate(TEST, "a fan\nfailed", author="ann")

    assert [] == store.patch_tests.newest(10)
    assert store.patch_tests.of_patch_set(1234, 3) is None
    assert replace(TEST, invalid="a fan failed") == store.patch_tests.of_build(JOB, 7)

    store.patch_tests.restore(TEST, author="bob")
    assert (TEST, [trace()]) == only(store)
    assert [("bob", "restored"), ("ann", "invalidated")] == [
        (each.user, each.action) for each in store.activity.newest(10)
    ]


def test_marks_stay_as_a_test_goes_on(store: Store) -> None:
    store.patch_tests.add(in_progress(1), [trace(rounds=1), trace("l2", rounds=1)])
    store.patch_tests.invalidate(TEST, "noise", author="ann", name="l2")

    store.patch_tests.add(TEST, [trace("l2"), trace()])
    assert [replace(trace("l2"), invalid="noise"), trace()] == only(store)[1]

    store.patch_tests.restore(TEST, author="ann", name="l2")
    assert [trace("l2"), trace()] == only(store)[1]


@pytest.mark.parametrize(
    ("reason", "name", "error"),
    [
        (" ", "", "the reason is empty"),
        ("x", "l2", f"the store has no per-patch test {JOB}/7, test l2"),
        ("x", "", "is already marked as invalid"),
    ],
)
def test_wrong_mark_is_refused(store: Store, reason: str, name: str, error: str) -> None:
    store.patch_tests.add(TEST, [trace()])
    store.patch_tests.invalidate(TEST, "a fan failed", author="ann")

    with pytest.raises(UsageError, match=error):
        store.patch_tests.invalidate(TEST, reason, author="ann", name=name)
    with pytest.raises(UsageError, match="is not marked as invalid"):
        store.patch_tests.restore(TEST, author="ann", name="ip4")
