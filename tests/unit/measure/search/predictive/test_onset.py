"""Prediction of the onset of loss from the trials near it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.measure.search.predictive.onset import FEWEST_POINTS, predict_onset
from perftrend.measurement import Trial

DURATION_S = 30.0
RATE = 1e6
"""Loss begins here, in pps."""

DISTANCES = (0.01, 0.015, 0.02, 0.03, 0.05, 0.08)


def trial(distance: float, loss_ratio: float, *, duration_s: float = DURATION_S) -> Trial:
    """Return a trial at a distance above the onset that ran to its end."""
    rate = RATE * (1.0 + distance)
    sent = round(rate * duration_s)
    return Trial(rate, duration_s, duration_s, sent, sent - math.floor(sent * loss_ratio))


def ended_early(distance: float, loss_ratio: float) -> Trial:
    """Return a trial that ended with its first lost frame."""
    sent = round(1.0 / loss_ratio)
    rate = RATE * (1.0 + distance)
    return Trial(rate, DURATION_S, sent / rate, sent, sent - 1)


def knee(power: float, *, scale: float = 0.001) -> list[tuple[float, float]]:
    return [(distance, scale * (distance / 0.05) ** power) for distance in DISTANCES]


def one_frame(power: float, *, scale: float = 0.001) -> float:
    """Return the distance above the onset at which a trial loses one frame."""
    return 0.05 * math.pow(1.0 / (RATE * DURATION_S * scale), 1.0 / power)


@given(power=st.floats(1.0, 3.5), scale=st.floats(2e-4, 2e-3))
def test_power_of_the_distance_need_not_be_known(power: float, scale: float) -> None:
    onset = predict_onset([trial(*point) for point in knee(power, scale=scale)], DURATION_S)

    assert onset is not None
    expected = math.log(RATE * (1.0 + one_frame(power, scale=scale)))
    assert expected == pytest.approx(onset.log_rate, abs=0.001)


def test_time_of_the_first_lost_frame_shows_the_same_as_a_whole_trial() -> None:
    whole = predict_onset([trial(*point) for point in knee(2.0)], DURATION_S)
    early = predict_onset([ended_early(*point) for point in knee(2.0)], DURATION_S)

    assert whole is not None
    assert early is not None
    assert whole.log_rate == pytest.approx(early.log_rate, abs=2e-4)


def test_fewer_frames_make_the_prediction_less_certain() -> None:
    points = knee(2.0, scale=1e-4)
    many = predict_onset([trial(*point) for point in points], DURATION_S)
    few = predict_onset([trial(*point, duration_s=1.0) for point in points], DURATION_S)

    assert many is not None
    assert few is not None
    assert few.deviation > 2.0 * many.deviation


def test_trial_in_overload_is_not_on_the_line() -> None:
    near = [trial(*point) for point in knee(2.0)]
    without = predict_onset(near, DURATION_S)

    assert without == predict_onset([*near, trial(0.2, 0.06)], DURATION_S), "too much loss for an onset"
    above = predict_onset([*near, trial(0.11, 0.009)], DURATION_S)
    assert without is not None
    assert above is not None
    assert without.log_rate == pytest.approx(above.log_rate, abs=1e-3), "only the lowest points are on it"


def test_too_few_points_predict_nothing() -> None:
    points = [trial(*point) for point in knee(2.0)[: FEWEST_POINTS - 1]]

    assert predict_onset([], DURATION_S) is None
    assert predict_onset(points, DURATION_S) is None
    assert predict_onset([*points, trial(-0.01, 0.0)], DURATION_S) is None, "a trial without loss is no point"


def test_points_of_random_loss_predict_nothing() -> None:
    """The same knee, but the first frame was lost earlier or later than it should have been."""
    luck = (2.0, 0.5, 1.5, 0.4, 1.2, 0.7)
    points = [ended_early(distance, loss * by) for (distance, loss), by in zip(knee(2.0), luck, strict=True)]

    assert predict_onset(points, DURATION_S) is None


def test_onset_far_below_all_points_is_not_predicted() -> None:
    points = [trial(0.5 + 0.01 * number, 0.001 + 2e-5 * number) for number in range(FEWEST_POINTS)]

    assert predict_onset(points, DURATION_S) is None


def test_loss_that_falls_with_the_rate_has_no_onset() -> None:
    assert (
        predict_onset([trial(distance, 0.001 - distance / 100) for distance in DISTANCES], DURATION_S) is None
    )
