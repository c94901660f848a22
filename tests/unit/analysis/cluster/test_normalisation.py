from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.cluster import Unusable, normalise
from perftrend.errors import SettingsError

NAN, INF = math.nan, math.inf

WINDOWS = st.lists(st.floats(-1e6, 1e6, allow_subnormal=False) | st.just(NAN), min_size=3, max_size=15)


def shape(trace: list[float]) -> list[float]:
    """Return the one row of a trace that is neither scaled nor left out, moved so that it begins at 0."""
    row = normalise([trace], smallest_deviation=1e9, around_middle=False).rows[0]
    return [float(value - row[0]) for value in row]


def test_row_has_mean_0_and_deviation_1() -> None:
    """Of 2 and 6 the mean is 4 and the population deviation 2."""
    assert [[-1.0, 1.0, -1.0, 1.0]] == normalise([[2.0, 6.0, 2.0, 6.0]]).rows.tolist()


def test_hole_takes_the_next_value_and_at_the_end_the_last_one() -> None:
    assert [0, 0, 0, 1, 3, 3] == shape([NAN, NAN, 2, 3, NAN, 5])
    assert [0, 2, 2, 2, 2] == shape([3, NAN, 5, NAN, NAN])


def test_infinity_is_a_hole() -> None:
    assert [0, 2, 2] == shape([3, INF, 5])
    assert [0, 2, 2] == shape([3, -INF, 5])


def test_trace_that_hardly_moves_only_loses_its_mean() -> None:
    """The deviation of 0 and 0.002 is 0.001, which is not above the smallest one."""
    trace = [0.0, 0.002, 0.0, 0.002]

    np.testing.assert_allclose(normalise([trace]).rows, [[-0.001, 0.001, -0.001, 0.001]])
    np.testing.assert_allclose(normalise([trace], smallest_deviation=0.0009).rows, [[-1, 1, -1, 1]])


@pytest.mark.parametrize("value", [0.0, 0.1, 1e7 / 3, 1e300, -5e-324])
def test_equal_values_become_exactly_zero(value: float) -> None:
    assert [[0.0] * 15] == normalise([[value] * 15], smallest_deviation=0).rows.tolist()


@pytest.mark.parametrize("size", [1e-320, 1e-200, 1e200, 1e308])
def test_size_of_the_numbers_does_not_matter(size: float) -> None:
    assert [[-1, 1, 1, -1]] == normalise([[-size, size, size, -size]], smallest_deviation=0).rows.tolist()


@pytest.mark.parametrize(
    ("trace", "reason"),
    [
        ([NAN] * 7, Unusable.EMPTY),
        ([1, 2, 3, NAN, 5, 6, 7], Unusable.NO_MIDDLE),
        ([1, NAN, NAN, 4, 5, 6, 7], Unusable.SPARSE_SIDE),
        ([1, 2, 3, 4, NAN, INF, 7], Unusable.SPARSE_SIDE),
    ],
)
def test_trace_that_says_too_little_is_left_out(trace: list[float], reason: Unusable) -> None:
    found = normalise([[1, 2, 3, 4, 5, 6, 7], trace])

    assert {1: reason} == found.left_out
    assert [0] == found.positions.tolist()
    assert 1 == len(found.rows)


def test_side_may_lack_half_of_its_values() -> None:
    assert {} == normalise([[1, 2, NAN, NAN, 5, 6, 7, NAN, NAN]]).left_out


def test_window_of_an_even_length_has_its_middle_right_of_the_centre() -> None:
    assert {0: Unusable.NO_MIDDLE} == normalise([[1, 2, NAN, 4]]).left_out
    assert {} == normalise([[1, NAN, 3, 4]]).left_out


def test_without_a_commit_in_the_middle_only_empty_traces_are_left_out() -> None:
    traces = [[1, 2, NAN, NAN, NAN], [NAN] * 5]

    assert {1: Unusable.EMPTY} == normalise(traces, around_middle=False).left_out


@given(st.lists(WINDOWS, max_size=6))
def test_every_trace_is_kept_or_left_out(windows: list[list[float]]) -> None:
    width = min(map(len, windows), default=0)
    found = normalise(np.array([window[:width] for window in windows]).reshape(len(windows), width))

    assert sorted([*found.positions.tolist(), *found.left_out]) == list(range(len(windows)))
    assert (len(found.positions), width) == found.rows.shape
    assert np.isfinite(found.rows).all()
    np.testing.assert_allclose(found.rows.mean(axis=1) if width else [], 0, atol=1e-9)


@given(
    st.lists(st.integers(-(10**6), 10**6) | st.just(NAN), min_size=1, max_size=15),
    st.floats(0.01, 1000),
    st.floats(-1e6, 1e6),
)
def test_scale_and_level_leave_the_shape(window: list[float], factor: float, level: float) -> None:
    """Of whole numbers that differ the deviation is at least a quarter."""
    trace = np.array(window)
    found = normalise([trace, factor * trace + level], around_middle=False).rows

    if len(found):
        np.testing.assert_allclose(*found, atol=1e-5)


@pytest.mark.parametrize("smallest", [-1.0, NAN, INF])
def test_smallest_deviation_must_be_a_number_that_is_not_negative(smallest: float) -> None:
    with pytest.raises(SettingsError, match="smallest standard deviation"):
        normalise([[1.0, 2.0]], smallest_deviation=smallest)


def test_traces_must_be_a_table() -> None:
    with pytest.raises(SettingsError, match="one row for each trace, not 1 dimensions"):
        normalise([1.0, 2.0])
