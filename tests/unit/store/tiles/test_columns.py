"""Which runs share a column, and columns of testbeds side by side."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.model import revision_of
from perftrend.store.tiles.columns import (
    AxisEntry,
    TileColumn,
    assign_columns,
    columns_of,
    common,
)

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
A, B = "aaaaaaa", "bbbbbbb"


def entry(day: int, revision: str = "", job: str = "nightly") -> AxisEntry:
    return AxisEntry(MOMENT + timedelta(days=day), day, job, 100 + day, revision)


def column(day: int, revision: str = "") -> TileColumn:
    return TileColumn(revision, MOMENT + timedelta(days=day), (day,))


@pytest.mark.parametrize(
    ("version", "revision"),
    [
        ("0123abc", "0123abc"),
        ("ebea2a96a9a3", "ebea2a96a9a3"),
        ("f" * 40, "f" * 40),
        ("v24.06-rc0-12-g0123abcd", "0123abcd"),
        ("24.06-rc0~12-g0123abcd", "0123abcd"),
        ("c81cc6bf2cad-dirty", ""),
        ("v24.06-12-g0123abcd-dirty", ""),
        ("simulated 0.1.0", ""),
        ("6.1.0-13-amd64", ""),
        ("20260101", ""),
        ("1" * 40, "1" * 40),
        ("v24.06-12-g0123456", "0123456"),
        ("abc", ""),
        ("f" * 41, ""),
        ("", ""),
        ("-g" * 100_000, ""),
    ],
)
def test_commit_is_known_by_its_hash(version: str, revision: str) -> None:
    assert revision == revision_of({"device": version})


def test_versions_of_other_things_are_no_commit_of_the_product() -> None:
    assert not revision_of({"generator": "0123abc"})


def test_runs_without_a_commit_have_columns_of_their_own() -> None:
    assert [0, 1, 2] == assign_columns([entry(1), entry(2), entry(3)])


def test_jobs_that_measure_one_commit_share_a_column() -> None:
    runs = [entry(1, A), entry(2, A, "weekly"), entry(3, B), entry(4, A, "monthly")]

    assert [0, 0, 1, 0] == assign_columns(runs)


def test_a_job_that_measures_a_commit_again_makes_another_column() -> None:
    runs = [entry(1, A), entry(2, A, "weekly"), entry(3, A), entry(4, A, "weekly"), entry(5, A)]

    assert [0, 0, 1, 1, 2] == assign_columns(runs)


def test_a_column_has_the_time_of_its_first_run() -> None:
    [first, second] = columns_of([entry(1, A), entry(2), entry(3, A, "weekly")])

    assert TileColumn(A, MOMENT + timedelta(days=1), (101, 103)) == first
    assert TileColumn("", MOMENT + timedelta(days=2), (102,)) == second


ENTRIES = st.lists(
    st.builds(
        entry, st.integers(0, 10**4), st.sampled_from(["", A, B]), st.sampled_from(["nightly", "weekly"])
    ),
    unique_by=lambda each: each.build,
).map(sorted)


@given(ENTRIES)
def test_columns_are_numbered_in_the_order_of_their_first_runs(entries: list[AxisEntry]) -> None:
    numbers = assign_columns(entries)

    assert list(range(len(set(numbers)))) == list(dict.fromkeys(numbers))


@given(ENTRIES)
def test_no_column_has_two_runs_of_a_job_or_two_commits(entries: list[AxisEntry]) -> None:
    by_id = {each.run_id: each for each in entries}

    for each in columns_of(entries):
        runs = [by_id[run] for run in each.runs]
        assert len(runs) == len({run.job for run in runs})
        assert {each.revision} == {run.revision for run in runs}


@given(ENTRIES, st.integers(0, 10**4))
def test_a_newer_run_moves_no_column(entries: list[AxisEntry], later: int) -> None:
    newest = entry(10**4 + 1 + later, A)

    assert assign_columns(entries) == assign_columns([*entries, newest])[:-1]


def test_testbeds_meet_at_their_commits() -> None:
    one = [column(1, A), column(3, B), column(5)]
    other = [column(2, B), column(4), column(6, B)]

    first, second = common([one, other])

    assert [0, 1, -1, 2, -1] == first.tolist()
    assert [-1, 0, 1, -1, 2] == second.tolist()


def test_nothing_side_by_side_is_nothing() -> None:
    assert [] == common([])
    assert [[]] == [places.tolist() for places in common([[]])]
