"""The value that represents a commit or a time, and its distance in time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.dashboard.catalog import Catalog
from perftrend.dashboard.compare.models import FallbackRule
from perftrend.dashboard.compare.values import (
    REACH,
    AxisPlace,
    axes_of,
    newest,
    places_of,
    read_nearest_values,
    with_samples,
)
from perftrend.errors import UsageError
from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.store import Store
from perftrend.store.tiles import Axis, TileColumn

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
KEY = TraceKey.of(testbed="1n", test="a", metric="mrr")


def commit(number: int) -> str:
    return f"{number:07x}{'a' * 33}"


def column(number: int, revision: str = "") -> TileColumn:
    return TileColumn(revision or commit(number), FIRST + timedelta(days=number), (number,))


def axis(testbed: str, *columns: TileColumn) -> Axis:
    return Axis(testbed, columns, 0, -1, ())


AXES = {
    "1n": axis("1n", *(column(number) for number in range(10))),
    "2n": axis("2n", *(column(number) for number in range(0, 10, 2))),
}


@pytest.mark.parametrize("text", [commit(4), commit(4)[:7], commit(4).upper()])
def test_commit_is_found_by_the_begin_of_its_hash(text: str) -> None:
    assert {"1n": AxisPlace(4, 4), "2n": AxisPlace(2, 2)} == places_of(text, AXES)


def test_commit_that_a_testbed_did_not_measure_lies_between_two_columns() -> None:
    assert {"1n": AxisPlace(5, 5), "2n": AxisPlace(3, 2)} == places_of(commit(5), AXES)


def test_commit_that_was_measured_repeatedly_has_several_columns() -> None:
    repeated = axis("1n", column(0), column(1), column(2, commit(1)), column(3))

    assert {"1n": AxisPlace(1, 2)} == places_of(commit(1), {"1n": repeated})


def test_short_hash_of_a_run_is_its_commit() -> None:
    short = axis("1n", column(0, commit(0)[:9]))

    assert {"1n": AxisPlace(0, 0)} == places_of(commit(0), {"1n": short})


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("2026-01-05", AxisPlace(5, 4)),
        ("2026-01-05T00:00Z", AxisPlace(5, 4)),
        ("2025-01-01", AxisPlace(0, -1)),
        ("2027-01-01", AxisPlace(10, 9)),
        ("20260105", AxisPlace(5, 4)),
    ],
)
def test_time_lies_between_two_columns(text: str, place: AxisPlace) -> None:
    assert place == places_of(text, AXES)["1n"]


def test_begin_of_several_hashes_is_refused() -> None:
    two = axis("1n", column(0, "abcdef0" + "1" * 33), column(1, "abcdef0" + "2" * 33))

    with pytest.raises(UsageError, match="several commits begin with abcdef0: abcdef011111, abcdef022222"):
        places_of("abcdef0", {"1n": two})


@pytest.mark.parametrize("text", ["", "yesterday", "123456", "g" * 7, "2026-13-01", "\x00", "9" * 50])
def test_what_is_neither_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError, match="enter a commit of 7 to 40 hex digits") as refused:
        places_of(text, AXES)
    assert "\n" not in str(refused.value)


@given(st.text(max_size=64))
def test_any_text_is_a_place_or_a_refusal(text: str) -> None:
    try:
        found = places_of(text, AXES)
    except UsageError:
        return
    assert AXES.keys() == found.keys()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Give a testbed of ten commits, whose only trace has a value at 0, 1, 2, 6 and 7."""
    with Store.open(tmp_path / "store.sqlite") as opened:
        for number in range(10):
            started = FIRST + timedelta(days=number)
            run = Run("1n", "nightly", number + 1, started, started, {"device": commit(number)})
            samples = (100.0 + number, 102.0 + number)
            result = Result(KEY, "pps", Better.HIGHER, Status.PASS, samples, 101.0 + number)
            opened.add(run, [result] if number in {0, 1, 2, 6, 7} else [])
        yield opened


def value_at(store: Store, at: str, rule: FallbackRule) -> tuple[str, int]:
    """Return the number of the commit whose value is taken, and how far it is."""
    now, traces = Catalog(store).now(), np.array([0])
    axes = axes_of(store, now, traces)
    places: Mapping[str, AxisPlace] = places_of(at, axes) if at else newest(axes)
    found = read_nearest_values(store.tiles.values, now, traces, axes, places, rule)
    column = found.column(0)
    assert column is None or found.values.value[0] == 101.0 + int(column.revision[:7], 16)
    return column.revision[:7].lstrip("0") or "0" if column else "", int(found.distance[0])


@pytest.mark.parametrize(
    ("at", "rule", "expected"),
    [
        (commit(1), FallbackRule.NEAREST, ("1", 0)),
        (commit(3), FallbackRule.NEAREST, ("2", -1)),
        (commit(5), FallbackRule.NEAREST, ("6", 1)),
        (commit(4), FallbackRule.NEAREST, ("2", -2)),
        (commit(5), FallbackRule.BEFORE, ("2", -3)),
        (commit(3), FallbackRule.AFTER, ("6", 3)),
        (commit(8), FallbackRule.AFTER, ("", 0)),
        ("2026-01-02T12:00Z", FallbackRule.BEFORE, ("1", -1)),
        ("2026-01-02T12:00Z", FallbackRule.AFTER, ("2", 1)),
        ("2025-01-01", FallbackRule.BEFORE, ("", 0)),
        ("2025-01-01", FallbackRule.AFTER, ("0", 1)),
        ("", FallbackRule.BEFORE, ("7", -2)),
    ],
)
def test_value_is_the_nearest_on_the_side_that_is_asked_for(
    store: Store, at: str, rule: FallbackRule, expected: tuple[str, int]
) -> None:
    assert expected == value_at(store, at, rule)


def test_value_out_of_reach_does_not_count(tmp_path: Path) -> None:
    with Store.open(tmp_path / "long.sqlite") as store:
        result = Result(KEY, "pps", Better.HIGHER, Status.PASS, (1.0,), 101.0)
        store.add_all(
            (Run("1n", "nightly", number + 1, FIRST + timedelta(days=number), FIRST + timedelta(days=number),
                 {"device": commit(number)}), [result] if number == 0 else [])
            for number in range(REACH + 1)
        )  # fmt: skip

        assert ("0", 1 - REACH) == value_at(store, commit(REACH - 1), FallbackRule.NEAREST)
        assert ("", 0) == value_at(store, "", FallbackRule.BEFORE)


def test_samples_tell_the_noise_where_the_course_is_too_short(store: Store) -> None:
    now, traces = Catalog(store).now(), np.array([0])
    axes = axes_of(store, now, traces)
    found = read_nearest_values(store.tiles.values, now, traces, axes, newest(axes), FallbackRule.BEFORE)

    known = with_samples(store, found)

    assert [0] == found.values.freedom.tolist()
    assert [1] == known.freedom.tolist()
    assert known.error[0] == pytest.approx(1 / 108, rel=0.01)


def test_no_traces_have_no_values(store: Store) -> None:
    nobody = np.array([], dtype=np.intp)

    assert 0 == len(
        read_nearest_values(
            store.tiles.values, Catalog(store).now(), nobody, {}, {}, FallbackRule.NEAREST
        ).columns
    )
