from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis import moving_statistics, outliers
from perftrend.errors import SettingsError

NAN = math.nan

series = st.lists(st.one_of(st.floats(min_value=0, max_value=1e8), st.just(NAN)), max_size=30).map(np.array)


def test_statistics_of_five_runs_as_worked_by_hand() -> None:
    """The window of the last run holds 10, 11, 12, 13 and 30, in another order.

    Ranks 1 + q * 4 are 2, 3 and 4: Q1 = 11, Q2 = 12, Q3 = 13, IQR = 2. What is at or below 8, or
    at or above 16, is an outlier: 30. Without it the average is 46 / 4 = 11.5, the squares of the
    distances add up to 2.25 + 0.25 + 0.25 + 2.25 = 5, and the deviation is √(5 / 3).
    """
    moving = moving_statistics(np.array([12.0, 10.0, 30.0, 11.0, 13.0, 99.0]), window=5)

    assert (11.0, 12.0, 13.0) == (
        moving.first_quartile[-1],
        moving.moving_median[-1],
        moving.third_quartile[-1],
    )
    assert moving.trimmed_average[-1] == pytest.approx(11.5)
    assert moving.trimmed_deviation[-1] == pytest.approx(math.sqrt(5 / 3))
    assert moving.low[-1] == pytest.approx(11.5 - 3 * math.sqrt(5 / 3))
    assert moving.high[-1] == pytest.approx(11.5 + 3 * math.sqrt(5 / 3))


def test_quartile_between_two_ranks_is_interpolated() -> None:
    """Of 1, 2, 3, 4 the first quartile has the rank 1.75 and the third the rank 3.25."""
    moving = moving_statistics(np.array([1.0, 2.0, 3.0, 4.0, 0.0]), window=4)

    assert (1.75, 2.5, 3.25) == (
        moving.first_quartile[-1],
        moving.moving_median[-1],
        moving.third_quartile[-1],
    )


def test_run_never_judges_itself() -> None:
    """A single jump is an outlier although it would pull the quartiles with it."""
    samples = np.array([10.0, 10.1, 9.9, 10.0, 10.1, 4.0])

    assert [False] * 5 + [True] == outliers(samples, window=5).tolist()


@pytest.mark.parametrize(
    ("value", "outside"),
    [(8.0, True), (8.1, False), (11.0, False), (13.0, False), (15.9, False), (16.0, True)],
)
def test_outlier_lies_at_least_one_and_a_half_ranges_outside(value: float, outside: bool) -> None:
    """Q1 = 11, Q3 = 13: the limits 8 and 16 belong to the outliers."""
    samples = np.array([10.0, 11.0, 12.0, 13.0, 14.0, value])

    assert outside == outliers(samples, window=5)[-1]


def test_equal_runs_are_normal_and_any_other_is_an_outlier() -> None:
    samples = np.array([0.1] * 9 + [0.1, 0.2])
    moving = moving_statistics(samples, window=9)

    assert [False] * 10 + [True] == moving.outliers.tolist()
    assert (0.1, 0.0) == (moving.trimmed_average[9], moving.trimmed_deviation[9])
    assert moving.low[9] == moving.high[9] == 0.1


def test_window_holds_the_last_runs_only() -> None:
    moving = moving_statistics(np.array([1.0, 1.0, 1.0, 1.0, 5.0, 6.0, 7.0, 8.0, 0.0]), window=4)

    assert moving.moving_median[-1] == pytest.approx(6.5)


def test_run_without_a_value_takes_no_place_in_a_window() -> None:
    samples = np.array([5.0, NAN, 6.0, NAN, 7.0, 8.0, NAN, 0.0])
    moving = moving_statistics(samples, window=4)

    assert 4 == moving.sizes[-1]
    assert moving.moving_median[-1] == pytest.approx(6.5)
    assert moving.moving_median[-2] == pytest.approx(6.5)
    assert not moving.outliers[-2]


def test_short_history_has_a_median_first_a_deviation_next_and_quartiles_last() -> None:
    moving = moving_statistics(np.array([4.0, 8.0, 6.0, 100.0, 5.0]), window=10)

    np.testing.assert_array_equal([NAN, 4.0, 6.0, 6.0, 7.0], moving.moving_median)
    np.testing.assert_allclose(
        [NAN, NAN, math.sqrt(8), 2.0], moving.trimmed_deviation[:4], rtol=1e-12, equal_nan=True
    )
    assert [True] * 4 + [False] == np.isnan(moving.first_quartile).tolist()
    assert [True] * 4 + [False] == np.isnan(moving.low).tolist()
    assert not moving.outliers[:4].any()


@given(series, st.integers(min_value=4, max_value=12))
def test_every_window_agrees_with_numpy_on_its_values(samples: np.ndarray, window: int) -> None:
    moving = moving_statistics(samples, window=window)

    for position in range(samples.size):
        values = samples[:position][np.isfinite(samples[:position])][-window:]
        if values.size < 4:
            continue
        expected = np.percentile(values, [25, 50, 75])
        found = (moving.first_quartile, moving.moving_median, moving.third_quartile)
        np.testing.assert_allclose(expected, [each[position] for each in found], rtol=1e-9)
        assert values.min() <= moving.trimmed_average[position] * (1 + 1e-12)
        assert moving.trimmed_average[position] <= values.max() * (1 + 1e-12)


def test_no_run_has_no_statistics() -> None:
    moving = moving_statistics(np.empty(0))

    assert (0, 0, 0) == (moving.moving_median.size, moving.outliers.size, moving.low.size)


def test_window_of_three_is_refused() -> None:
    with pytest.raises(SettingsError, match="window is 3 runs; give at least 4"):
        outliers(np.ones(9), window=3)
