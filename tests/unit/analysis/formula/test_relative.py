"""Averages of rows of unlike levels: only the values move them, not which rows there are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.formula.relative import MOST_MISSING, RowSet, SetChange
from perftrend.model import Samples

POINTS, CHANGE = 60, 30
LEVELS = np.array([12e6, 11e6, 10e6, 9e6, 4e6, 3e6])
"""The last two are slower tests that are added."""


def with_two_added() -> Samples:
    """Return rows without noise; the last two begin at ``CHANGE``."""
    rows = np.outer(LEVELS, np.ones(POINTS))
    rows[-2:, :CHANGE] = np.nan
    return rows


def test_added_slower_tests_are_no_fall() -> None:
    rows = with_two_added()
    rates = np.nanmean(rows, axis=0)

    assert rates[-1] < 0.8 * rates[0]
    assert RowSet.of(rows).average() == pytest.approx(1)
    assert RowSet.of(rows).least() == pytest.approx(1)
    assert RowSet.of(rows).most() == pytest.approx(1)
    assert [SetChange(CHANGE, added=(4, 5), removed=())] == [*RowSet.of(rows).changes()]


@pytest.mark.parametrize("since", [10, CHANGE, 45])
def test_five_percent_in_all_rows_are_five_percent(since: int) -> None:
    """The traces that are added begin before it, with it, or after it."""
    rows = with_two_added()
    rows[:, since:] *= 0.95
    result = RowSet.of(rows).average()

    assert result[since:] / result[0] == pytest.approx(0.95)
    assert result[:since] / result[0] == pytest.approx(1)


def test_five_percent_in_one_of_five_rows_are_one_percent() -> None:
    rows = np.outer(LEVELS[:5], np.ones(POINTS))
    rows[1, CHANGE:] *= 0.95
    result = RowSet.of(rows).average()

    assert result[-1] / result[0] == pytest.approx(0.99, abs=1e-3)


def test_removed_and_replaced_rows_do_not_move_it() -> None:
    rows = np.outer(LEVELS, np.ones(POINTS))
    rows[:3, 20:] = np.nan
    rows[4:, :40] = np.nan
    rows[3, :30] *= 1.1

    assert [(20, (), (0, 1, 2)), (40, (4, 5), ())] == [
        (each.point, each.added, each.removed) for each in RowSet.of(rows).changes()
    ]
    result = RowSet.of(rows).average()
    # Only the fourth row has values between them.
    assert result[:20] == pytest.approx(result[0])
    assert result[29] / result[30] == pytest.approx(1.1)
    assert result[40:] == pytest.approx(result[30])


def test_rows_without_a_common_point_are_unrelated() -> None:
    rows = np.outer(LEVELS[:2], np.ones(POINTS))
    rows[0, CHANGE:] = np.nan
    rows[1, :CHANGE] = np.nan

    assert RowSet.of(rows).average() == pytest.approx(1)


@given(row=st.sampled_from([0, 2, 3]), first=st.integers(0, POINTS - 1), count=st.integers(1, MOST_MISSING))
def test_missing_values_do_not_move_it(row: int, first: int, count: int) -> None:
    """The ratio of a row may be far from the average, such as after a step in another row."""
    rows = np.outer(LEVELS[:4], np.ones(POINTS))
    rows[1, CHANGE:] *= 0.5
    whole = RowSet.of(rows).average()
    rows[row, first : first + count] = np.nan

    assert RowSet.of(rows).average() == pytest.approx(whole)
    assert [] == [*RowSet.of(rows).changes()]


def test_missing_newest_value_after_a_step_does_not_move_it() -> None:
    rows = np.outer(LEVELS[:4], np.ones(POINTS))
    rows[1, CHANGE:] *= 0.5
    whole = RowSet.of(rows).average()
    rows[1, -1] = np.nan

    assert RowSet.of(rows).average() == pytest.approx(whole)


def test_longer_gap_changes_the_set() -> None:
    rows = np.outer(LEVELS[:3], np.ones(POINTS))
    rows[0, 20 : 21 + MOST_MISSING] = np.nan

    assert [SetChange(20, (), (0,)), SetChange(21 + MOST_MISSING, (0,), ())] == [*RowSet.of(rows).changes()]
    assert RowSet.of(rows).average() == pytest.approx(1)


def test_points_that_measured_other_tests_only_are_holes_and_no_gap() -> None:
    rows = np.full((3, POINTS), np.nan)
    rows[:, ::20] = LEVELS[:3, np.newaxis]
    expected = np.full(POINTS, np.nan)
    expected[::20] = 1

    np.testing.assert_allclose(RowSet.of(rows).average(), expected)
    assert [] == [*RowSet.of(rows).changes()]


@given(
    seed=st.integers(0, 2**32 - 1),
    spans=st.lists(st.tuples(st.just(0) | st.integers(9, 30), st.just(60) | st.integers(31, 51))),
)
def test_common_course_of_rows_is_found_exactly(seed: int, spans: list[tuple[int, int]]) -> None:
    random = np.random.default_rng(seed)
    course = random.uniform(0.5, 2, POINTS)
    rows = np.outer(random.uniform(1, 100, 1 + len(spans)), course)
    for row, (begin, end) in zip(rows[1:], spans, strict=True):
        row[:begin] = row[end:] = np.nan
    result = RowSet.of(rows).average()

    assert result / result[0] == pytest.approx(course / course[0])
