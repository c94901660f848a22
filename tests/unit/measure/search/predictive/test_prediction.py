"""Prediction of the rate at which a loss ratio is reached."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.measure.search.predictive.prediction import (
    LossPoint,
    foretell,
    foretell_softly,
    loss_curve,
)
from perftrend.measurement import Trial

KNEES: dict[str, Callable[[float], float]] = {
    "overload": lambda distance: 1.0 - math.exp(-distance),
    "even": lambda distance: 0.04 * distance,
    "square": lambda distance: 0.3 * distance**2,
    "cube": lambda distance: 2.0 * distance**3,
    "factor": lambda distance: 1e-6 * math.exp(30.0 * distance),
}
"""Loss over ln of the rate, above where it begins."""


def trial(rate: float, sent: int, lost: int) -> Trial:
    return Trial(rate, 1.0, 1.0, sent, sent - lost)


@pytest.mark.parametrize("knee", sorted(KNEES))
@given(
    onset=st.floats(9.0, 17.0),
    far=st.floats(0.12, 0.4),
    nearer=st.floats(0.5, 0.8),
    sought=st.floats(0.3, 0.9),
)
def test_three_points_foretell_a_knee_of_any_shape(
    knee: str, onset: float, far: float, nearer: float, sought: float
) -> None:
    distances = [far * nearer**2, far * nearer, far]
    points = [LossPoint(onset + distance, KNEES[knee](distance)) for distance in distances]
    truth = sought * distances[0]

    foretold = foretell(points, KNEES[knee](truth))

    assert foretold is not None
    assert onset + truth == pytest.approx(foretold, abs=0.02 * far)


def test_overloaded_device_is_foretold_from_one_point() -> None:
    assert foretell([LossPoint(math.log(20e6), 0.4)], 0.005) == pytest.approx(math.log(20e6 * 0.6 / 0.995))
    assert foretell_softly([LossPoint(math.log(20e6), 0.4)], 0.005) is None, "a square takes two"


def test_two_points_tell_a_queue_that_overflows_from_a_soft_knee() -> None:
    hard = [LossPoint(0.1, 1 - math.exp(-0.1)), LossPoint(0.2, 1 - math.exp(-0.2))]
    soft = [LossPoint(0.1, 0.001), LossPoint(0.2, 0.004)]

    assert foretell(hard, 0.01) == pytest.approx(-math.log(0.99))
    assert foretell(soft, 0.00025) == pytest.approx(0.05)


def test_nothing_is_foretold_from_nothing() -> None:
    assert foretell([], 0.005) is None


def test_few_lost_frames_are_not_a_point() -> None:
    assert [] == loss_curve([trial(1000, 10_000, 4)], 0.001)
    assert [0.0005] == [point.loss_ratio for point in loss_curve([trial(1000, 10_000, 5)], 0.001)]


@given(st.lists(st.tuples(st.floats(1.0, 1e9), st.integers(5, 1000)), max_size=20), st.floats(0.0, 0.5))
def test_curve_rises_with_the_rate(trials: list[tuple[float, int]], resolution: float) -> None:
    points = loss_curve([trial(rate, 1000, lost) for rate, lost in trials], resolution)

    assert len(trials) == sum(point.trials for point in points)
    for low, high in pairwise(points):
        assert low.log_rate + resolution <= high.log_rate * (1 + 1e-12)
        assert low.loss_ratio < high.loss_ratio


def test_device_that_loses_everything_is_foretold_below() -> None:
    foretold = foretell([LossPoint(math.log(1e6), 1.0)], 0.005)

    assert foretold is not None
    assert foretold < math.log(1.0)
