from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.stepfit import ORIGINAL_CUTOFF, StepMethod, best_step, step_fits
from perftrend.errors import SettingsError
from perftrend.model import Better, Samples

NAN = math.nan

SIGNED = [method for method in StepMethod if method not in {StepMethod.MANN_WHITNEY, StepMethod.CONSTANT}]


def statistic(
    values: list[float], method: StepMethod, *, radius: int = 2, better: Better = Better.HIGHER
) -> float:
    """Return the statistic of the commit in the middle of one window."""
    return float(step_fits(values, radius=radius, better=better, method=method).statistic[radius])


def test_methods_as_worked_by_hand() -> None:
    """Before 9 and 11, from the commit on 13 and 15: L = 10, R = 14, both squares add up to 2.

    s² = 4 / (4 - 2) = 2, both sample deviations are √2, and t = 4 / (√2 √(1/2 + 1/2)).
    """
    window = [9.0, 11.0, 13.0, 15.0]

    assert 4.0 == statistic(window, StepMethod.ABSOLUTE)
    assert statistic(window, StepMethod.PERCENT) == pytest.approx(0.4)
    assert statistic(window, StepMethod.COHEN) == pytest.approx(4 / math.sqrt(2))
    assert statistic(window, StepMethod.CORRECTED) == pytest.approx(4 / math.sqrt(2))
    assert 13.0 == statistic(window, StepMethod.CONSTANT)


def test_original_divides_by_the_documented_error_of_a_window_with_one_run_more() -> None:
    """Squares: 2 before, 2 from the commit on (13, 14, 15); lse = √4 / 5, step 4: 10."""
    assert statistic([9.0, 11.0, 13.0, 14.0, 15.0], StepMethod.ORIGINAL) == pytest.approx(10.0)


def test_mann_whitney_of_separate_sides_has_the_printed_probability() -> None:
    """Four against four, U = 0: two of the 70 orders are so extreme, 0.029 in every table."""
    values = [1.0, 2.0, 3.0, 4.0, 11.0, 12.0, 13.0, 14.0]

    assert statistic(values, StepMethod.MANN_WHITNEY, radius=4) == pytest.approx(2 / 70)


def test_mann_whitney_counts_every_order() -> None:
    """Two against two: U of 0 to 4 has 1, 1, 2, 1, 1 of six orders; here U = 1."""
    assert statistic([1.0, 3.0, 2.0, 4.0], StepMethod.MANN_WHITNEY) == pytest.approx(4 / 6)


def test_mann_whitney_of_equal_values_is_certain_of_nothing() -> None:
    assert 1.0 == statistic([5.0] * 8, StepMethod.MANN_WHITNEY, radius=4)


def test_mann_whitney_with_ties_uses_the_normal_approximation() -> None:
    """Ranks 1.5, 1.5, 3, 4 and 5 to 8: U = 0, variance 16/12 (9 - 6/56), 8 - 1/2 away from 8."""
    values = [1.0, 1.0, 3.0, 4.0, 11.0, 12.0, 13.0, 14.0]
    variance = 16 / 12 * (9 - 6 / 56)
    expected = math.erfc(7.5 / math.sqrt(2 * variance))

    assert statistic(values, StepMethod.MANN_WHITNEY, radius=4) == pytest.approx(expected)


def test_corrected_statistic_of_noise_is_students_t() -> None:
    """In windows of 2 · 5 and 2 · 30 runs, 5 % lie beyond 2.31 and 2.00, as in every table of t."""
    noise = np.random.default_rng(1).normal(100.0, 1.0, 20_000)

    def beyond(radius: int, cutoff: float) -> float:
        fits = step_fits(noise, radius=radius, better=Better.HIGHER, method=StepMethod.CORRECTED)
        return float(np.mean(np.abs(fits.statistic[radius : 1 - radius]) > cutoff))

    assert beyond(5, 2.306) == pytest.approx(0.05, abs=0.01)
    assert beyond(30, 2.002) == pytest.approx(0.05, abs=0.015)


@pytest.mark.parametrize("method", SIGNED)
def test_what_is_worse_is_negative_whatever_the_trace_counts(method: StepMethod) -> None:
    fall, rise = [10.0, 10.5, 10.2, 8.0, 8.5, 8.1, 8.3], [8.0, 8.5, 8.1, 10.0, 10.5, 10.2, 10.4]

    assert statistic(fall, method, radius=3) < 0 < statistic(rise, method, radius=3)
    assert statistic(rise, method, radius=3, better=Better.LOWER) < 0
    assert 0 < statistic(fall, method, radius=3, better=Better.LOWER)


def test_interesting_says_which_news_it_is() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 11.0, 12.0, 13.0, 14.0]
    ranks = step_fits(values, radius=4, better=Better.LOWER, method=StepMethod.MANN_WHITNEY)
    size = step_fits(values, radius=4, better=Better.HIGHER, method=StepMethod.ABSOLUTE)

    assert [0, 0, 0, 0, -1, 0, 0, 0] == ranks.mark_interesting(0.05).tolist()
    assert not ranks.mark_interesting(0.01).any()
    assert [0, 0, 0, 0, 1, 0, 0, 0] == size.mark_interesting(10.0).tolist()
    assert not size.mark_interesting(10.1).any()


def test_constant_is_bad_news_when_it_is_reached_from_the_good_side() -> None:
    values = [9.0, 9.0, 9.0, 7.0, 9.0]
    higher = step_fits(values, radius=2, better=Better.HIGHER, method=StepMethod.CONSTANT)
    lower = step_fits(values, radius=2, better=Better.LOWER, method=StepMethod.CONSTANT)

    assert [0, 0, 0, -1, 0] == higher.mark_interesting(8.0).tolist()
    assert [0, 0, -1, 0, 0] == lower.mark_interesting(8.0).tolist()


def test_step_without_noise_is_infinite_and_no_step_is_zero() -> None:
    step, flat = [0.1] * 4 + [0.3] * 5, [0.1] * 9

    for method in (StepMethod.ORIGINAL, StepMethod.CORRECTED, StepMethod.COHEN):
        assert math.inf == statistic(step, method, radius=4)
        assert 0.0 == statistic(flat, method, radius=4)


def test_runs_without_a_value_take_no_place() -> None:
    gaps = [9.0, NAN, 11.0, NAN, 13.0, 15.0, NAN]
    found = step_fits(gaps, radius=2, better=Better.HIGHER, method=StepMethod.ABSOLUTE)

    np.testing.assert_array_equal([NAN] * 4 + [4.0, NAN, NAN], found.step)


def test_history_shorter_than_the_window_has_no_fit() -> None:
    found = step_fits([1.0, 2.0, 3.0], radius=2, better=Better.HIGHER, method=StepMethod.COHEN)

    assert np.isnan(found.statistic).all()
    assert not found.mark_interesting(0.0).any()


windows = st.lists(st.integers(min_value=-1000, max_value=1000), min_size=9, max_size=30).map(
    lambda values: np.array(values, dtype=float)
)


@given(windows, st.sampled_from([StepMethod.ORIGINAL, StepMethod.CORRECTED, StepMethod.COHEN]))
def test_statistics_in_sigmas_have_no_unit_and_no_origin(samples: Samples, method: StepMethod) -> None:
    plain = step_fits(samples, radius=4, better=Better.HIGHER, method=method).statistic
    other = step_fits(1024 * samples + 4096, radius=4, better=Better.HIGHER, method=method).statistic

    np.testing.assert_allclose(plain, other, rtol=1e-9)


@given(windows)
def test_ranks_do_not_care_for_the_scale(samples: Samples) -> None:
    plain = step_fits(samples, radius=4, better=Better.HIGHER, method=StepMethod.MANN_WHITNEY).statistic
    cubed = step_fits(samples**3, radius=4, better=Better.HIGHER, method=StepMethod.MANN_WHITNEY).statistic

    np.testing.assert_array_equal(plain, cubed)
    assert (0 < plain[4:-3]).all()
    assert (plain[4:-3] <= 1).all()


def test_centroid_that_steps_is_interesting_at_the_documented_cutoff() -> None:
    """Ten values of ±0.01 around -1 and ten around 1: lse = √(20 * 0.0001) / 20 = 0.00224."""
    wiggle = np.tile([0.01, -0.01], 10)
    fit = best_step(np.repeat([-1.0, 1.0], 10) + wiggle, better=Better.LOWER)

    assert 10 == fit.position
    assert fit.lse == pytest.approx(math.sqrt(20 * 0.0001) / 20)
    assert fit.regression == pytest.approx(-2 / fit.lse)
    assert abs(fit.regression) > ORIGINAL_CUTOFF


@given(st.lists(st.integers(min_value=-50, max_value=50), min_size=2, max_size=12))
def test_best_step_leaves_the_least_squares_error_of_all_positions(values: list[int]) -> None:
    curve = np.array(values, dtype=float)
    fit = best_step(curve, better=Better.HIGHER)
    errors = [
        math.sqrt(curve[:at].var() * at + curve[at:].var() * (curve.size - at)) / curve.size
        for at in range(1, curve.size)
    ]

    assert fit.lse == pytest.approx(min(errors), abs=1e-9)


@pytest.mark.parametrize("curve", [[1.0], [1.0, NAN, 2.0]])
def test_curve_with_gaps_or_of_one_value_is_refused(curve: list[float]) -> None:
    with pytest.raises(SettingsError, match="at least two values and no gaps"):
        best_step(curve, better=Better.HIGHER)


def test_radius_of_one_and_unknown_methods_are_refused() -> None:
    with pytest.raises(SettingsError, match="radius is 1 runs; give at least 2"):
        step_fits([1.0] * 9, radius=1, better=Better.HIGHER, method=StepMethod.COHEN)
    with pytest.raises(SettingsError, match="'cohens'; did you mean 'cohen'"):
        step_fits([1.0] * 9, radius=2, better=Better.HIGHER, method="cohens")  # type: ignore[arg-type]
