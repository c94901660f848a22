from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.cluster import centroid_step, t_statistic
from perftrend.analysis.stepfit import StepFit, StepMethod, best_step, step_fits
from perftrend.model import Better

CURVES = st.lists(st.integers(-1000, 1000), min_size=10, max_size=40).map(
    lambda values: np.array(values, dtype=float)
)


def test_step_as_worked_by_hand() -> None:
    """Squares of 5 about 1, those of 5 about 4: 4 + 4; lse = √8 / 10, step 3."""
    curve = np.array([0.0, 2, 1, 2, 0, 3, 5, 4, 5, 3])
    step = centroid_step(curve, better=Better.HIGHER)

    assert step is not None
    assert 5 == step.position
    assert step.step == pytest.approx(3.0)
    assert step.lse == pytest.approx(math.sqrt(8) / 10)
    assert step.regression == pytest.approx(30 / math.sqrt(8))
    assert t_statistic(step, 10) == pytest.approx(3 / math.sqrt(8 / 8 * 2 / 5))


def test_less_that_is_better_turns_the_step() -> None:
    """So that the documented StepSize, left less right, is negative where a time grew."""
    step = centroid_step(np.repeat([1.0, 2.0], 6), better=Better.LOWER)

    assert StepFit(6, -1.0, 0.0, -math.inf) == step
    assert -math.inf == t_statistic(step, 12)


def test_each_side_has_five_commits() -> None:
    curve = np.concatenate([np.zeros(18), np.ones(2)])

    assert 15 == getattr(centroid_step(curve, better=Better.HIGHER), "position", None)
    assert 18 == getattr(centroid_step(curve, better=Better.HIGHER, side=1), "position", None)


def test_window_shorter_than_two_sides_has_no_step() -> None:
    assert centroid_step(np.array([0.0] * 4 + [1.0] * 5), better=Better.HIGHER) is None
    assert centroid_step(np.array([0.0] * 5 + [1.0] * 5), better=Better.HIGHER) is not None


def test_flat_centroid_has_a_step_of_nothing() -> None:
    step = centroid_step(np.full(12, 0.1), better=Better.HIGHER)

    assert step is not None
    assert 0.0 == step.step == step.regression == t_statistic(step, 12)


@given(CURVES, st.sampled_from(Better))
def test_it_is_the_fit_of_a_whole_curve_where_sides_may_be_short(curve: np.ndarray, better: Better) -> None:
    ours, known = centroid_step(curve, better=better, side=1), best_step(curve, better=better)

    assert ours is not None
    assert ours.lse == pytest.approx(known.lse, abs=1e-9)
    # A curve may have two equally good steps.
    if ours.position == known.position:
        assert ours.step == pytest.approx(known.step)
        assert ours.regression == pytest.approx(known.regression)


@given(CURVES)
def test_corrected_statistic_is_that_of_a_window_around_the_step(curve: np.ndarray) -> None:
    half = curve.size // 2
    window = curve[: 2 * half]
    step = centroid_step(window, better=Better.HIGHER, side=half)
    fits = step_fits(window, radius=half, better=Better.HIGHER, method=StepMethod.CORRECTED)

    assert step is not None
    assert t_statistic(step, window.size) == pytest.approx(fits.statistic[half])
