from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.errors import SettingsError
from perftrend.measure.search import Measure, SoakResult, soak
from perftrend.measure.simulator import DeviceModel
from perftrend.measurement import Trial

CRITICAL_PPS = 1e6


def soaked(device: Measure, **arguments: Any) -> SoakResult:
    """Soak with 24 trials."""
    asked = {"minimum_pps": 1e4, "maximum_pps": 2e6, "trial_duration_s": 5.0, "total_duration_s": 150.0}
    return soak(device, **{**asked, **arguments})


def answering(sent: int, received: int) -> Measure:
    def measure(rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
        return Trial(rate_pps, duration_s, duration_s, sent, received)

    return measure


@pytest.mark.parametrize("poisson", [False, True])
@pytest.mark.parametrize(
    ("knee", "critical_pps", "accuracy"),
    [
        ("hard", CRITICAL_PPS, 1e-3),
        # Where 0.02 (load - 0.9)² and 0.005 ((load - 1) / 0.12)² are 1e-7.
        ("soft", 0.902236 * CRITICAL_PPS, 2e-2),
        ("gentle", 1.000537 * CRITICAL_PPS, 5e-3),
    ],
)
def test_critical_load_is_found(knee: str, critical_pps: float, accuracy: float, poisson: bool) -> None:
    result = soaked(DeviceModel(CRITICAL_PPS, knee=knee, poisson=poisson))

    assert critical_pps == pytest.approx(result.critical_pps, rel=accuracy)
    assert "" == result.invalid


def test_jitter_pulls_the_critical_load_below_the_knee() -> None:
    """One trial in a thousand that loses a thousandth is already ten times the target."""
    result = soaked(DeviceModel(CRITICAL_PPS, jitter=0.003, seed=3))

    assert 0.97 * CRITICAL_PPS < result.critical_pps < 0.999 * CRITICAL_PPS
    # The average over the jitter is 1e-7 at 0.98916 of the knee (integrated numerically).
    assert result.lower < 0.98916 * CRITICAL_PPS < result.upper


def test_single_hiccup_does_not_move_the_estimate() -> None:
    device = DeviceModel(CRITICAL_PPS)
    calls = 0

    def measure(rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
        nonlocal calls
        calls += 1
        trial = device(rate_pps, duration_s, fail_above)
        hiccup = 1000 if calls == 15 else 0
        return Trial(rate_pps, duration_s, duration_s, trial.sent, trial.received - hiccup)

    result = soaked(measure)

    assert CRITICAL_PPS == pytest.approx(result.critical_pps, rel=2e-3)


def test_device_that_never_loses_is_answered_by_the_maximum() -> None:
    result = soaked(DeviceModel(1e9))

    assert 2e6 == result.critical_pps
    assert 2e6 == result.upper
    assert "" == result.invalid


def test_device_that_always_loses_is_flagged() -> None:
    result = soaked(DeviceModel(1e3))

    assert 1e4 == result.critical_pps
    assert "critical load is below it" in result.invalid


def test_device_that_returns_nothing_is_flagged() -> None:
    assert "critical load is below it" in soaked(answering(1_000_000, 0)).invalid


@pytest.mark.parametrize(
    ("sent", "received", "reason"), [(0, 0, "sent nothing"), (1000, 1001, "received 1001 frames")]
)
def test_trial_that_cannot_be_trusted_makes_the_result_invalid(sent: int, received: int, reason: str) -> None:
    assert reason in soaked(answering(sent, received)).invalid


def test_trials_grow_longer_and_none_ends_too_late() -> None:
    """5 + 6 + 7 + 8 + 9 s are 35 s; the next, of 10 s, would not end within 44 s."""
    result = soaked(DeviceModel(CRITICAL_PPS), duration_step_s=1.0, total_duration_s=44.0)

    assert [5.0, 6.0, 7.0, 8.0, 9.0] == [trial.duration_s for trial in result.trials]
    assert 35.0 == result.elapsed_s


def test_time_that_trials_take_in_excess_counts() -> None:
    def slow(rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
        return Trial(rate_pps, duration_s, 40.0, 1000, 1000)

    assert 4 == len(soaked(slow).trials)


def test_same_trials_give_the_same_answer() -> None:
    first, second = (soaked(DeviceModel(CRITICAL_PPS, jitter=0.003, seed=5)) for _ in range(2))

    assert first == second


def test_more_credibility_takes_a_wider_interval() -> None:
    half, most = (
        soaked(DeviceModel(CRITICAL_PPS, jitter=0.003, seed=5), credibility=share) for share in (0.5, 0.99)
    )

    assert most.lower < half.lower < half.critical_pps < half.upper < most.upper


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1, max_size=8))
def test_any_answers_end_in_an_ordered_interval(answers: list[tuple[int, int]]) -> None:
    remaining = iter(answers * 100)

    def adversary(rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
        return Trial(rate_pps, duration_s, 0.0, *next(remaining))

    result = soaked(adversary, total_duration_s=50.0)

    assert 9 == len(result.trials)
    assert 1e4 <= result.lower <= result.critical_pps <= result.upper <= 2e6
    assert all(1e4 <= trial.rate_pps <= 2e6 for trial in result.trials)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("minimum_pps", 0.0),
        ("maximum_pps", 1e4),
        ("maximum_pps", math.inf),
        ("target_loss_ratio", 0.0),
        ("target_loss_ratio", 1.0),
        ("trial_duration_s", math.nan),
        ("duration_step_s", -0.1),
        ("total_duration_s", 4.0),
        ("credibility", 1.0),
    ],
)
def test_bad_parameter_is_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(SettingsError, match=f"parameter {name} is"):
        soaked(DeviceModel(CRITICAL_PPS), **{name: value})
