"""The estimate of the time that a search still takes, on devices whose searches are known to the end."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.errors import SearchTimeoutError
from perftrend.measure.search import TrialProgress, mdr_search
from perftrend.measure.search.estimate import seconds_left
from perftrend.measure.search.parameters import Parameters
from perftrend.measure.simulator import DeviceModel
from perftrend.measurement import Interval, Phase, Step, Trial

PARAMETERS = Parameters(
    minimum_pps=1.0,
    maximum_pps=1024.0,
    loss_ratios=(0.0, 0.5),
    initial_duration_s=1.0,
    final_duration_s=100.0,
    relative_width=0.5,
    intermediate_phases=1,
    timeout_s=None,
)
"""One width is a factor of two; the trials take 1 s, 1 s and 100 s."""


def searched(device: DeviceModel, **arguments: Any) -> tuple[list[TrialProgress], float]:
    """Return what was told of a search, and how long it took."""
    told: list[TrialProgress] = []
    limits = {"minimum_pps": 20e3, "maximum_pps": 29.76e6, **arguments}
    result = mdr_search(device, on_step=told.append, **limits)
    return told, result.elapsed_s


def trial(rate: float, duration: float, lost: int = 0, elapsed: float | None = None) -> Trial:
    return Trial(rate, duration, duration if elapsed is None else elapsed, 100, 100 - lost)


def left(*trials: Trial, ndr: Interval, pdr: Interval, parameters: Parameters = PARAMETERS) -> float:
    steps = tuple(Step(one, "for the test", (ndr, pdr)) for one in trials)
    return seconds_left(parameters, [Phase("any", 1.0, 0.5, steps)])


@pytest.mark.parametrize(
    ("strategy", "kind", "typical"),
    [
        ("mdr", "hard", 0.25),
        ("mdr", "soft", 0.4),
        ("mdr", "gentle", 0.15),
        ("mdr", "collapse", 0.35),
        ("mdr", "jitter", 0.5),
        ("mdr", "two-mode", 0.5),
        ("predictive", "hard", 0.05),
        ("predictive", "soft", 0.2),
        ("predictive", "gentle", 0.2),
        ("predictive", "collapse", 0.1),
        ("predictive", "jitter", 0.4),
        ("predictive", "two-mode", 0.1),
    ],
)
def test_search_is_foreseen_about_right(strategy: str, kind: str, typical: float) -> None:
    errors = []
    for number in range(20):
        device = DeviceModel.of_kind(kind, 4e5 * 1.2**number, seed=number)
        told, whole = searched(device, strategy=strategy)
        rest = [(step.seconds_left, whole - step.elapsed_s) for step in told[:-1]]
        errors += [abs(estimate - truth) / truth for estimate, truth in rest]

    assert statistics.median(errors) < typical


@given(
    critical=st.floats(1e3, 40e6),
    kind=st.sampled_from(["hard", "soft", "inconsistent"]),
    timeout_s=st.sampled_from([None, 20.0, 1000.0]),
)
def test_estimate_is_never_negative_and_never_beyond_the_timeout(
    critical: float, kind: str, timeout_s: float | None
) -> None:
    told: list[TrialProgress] = []
    device = DeviceModel.of_kind(kind, critical)
    try:
        mdr_search(device, minimum_pps=2e4, maximum_pps=3e7, timeout_s=timeout_s, on_step=told.append)
    except SearchTimeoutError:
        assert told[-1].seconds_left == 0.0

    for step in told:
        assert 0.0 <= step.seconds_left
        assert timeout_s is None or step.seconds_left <= max(0.0, timeout_s - step.elapsed_s)


@pytest.mark.parametrize("kind", ["hard", "soft", "gentle", "collapse"])
def test_nothing_is_left_at_the_end(kind: str) -> None:
    told, whole = searched(DeviceModel.of_kind(kind, 12.3e6))

    assert (0.0, whole) == (told[-1].seconds_left, pytest.approx(told[-1].elapsed_s))


def test_bounds_that_were_measured_briefly_are_confirmed_once() -> None:
    """Both loss ratios share the lower bound: three bounds of 100 s, where trials run to their end."""
    seconds = left(trial(8, 1), trial(16, 1, 20), trial(12, 1, 80), ndr=Interval(8, 16), pdr=Interval(8, 12))

    assert 300 == pytest.approx(seconds)


def test_bounds_of_the_final_duration_need_no_time() -> None:
    assert left(trial(8, 100), trial(16, 100, 80), ndr=Interval(8, 16), pdr=Interval(8, 16)) == 0


def test_failing_trial_is_as_short_as_those_before() -> None:
    """A lower bound of 100 s; an upper one that ends after a tenth of the time, as it did before."""
    seconds = left(trial(8, 1), trial(16, 1, 80, 0.1), ndr=Interval(8, 16), pdr=Interval(8, 16))

    assert 110 == pytest.approx(seconds)


def test_each_halving_is_made_in_a_phase_of_its_own() -> None:
    """Two halvings of 1 s and 100 s, and one bound that they leave to be confirmed."""
    seconds = left(trial(8, 1), trial(64, 1, 80), ndr=Interval(8, 64), pdr=Interval(8, 64))

    assert 1 + 100 + 100 == pytest.approx(seconds)


def test_time_that_the_timeout_leaves_is_the_most() -> None:
    parameters = replace(PARAMETERS, timeout_s=42.0)

    assert 40 == left(trial(8, 2), ndr=Interval(8, 16), pdr=Interval(8, 16), parameters=parameters)


def test_search_without_a_trial_is_estimated_from_its_plan() -> None:
    """For each loss ratio two halvings and a bound: 1 s, 100 s and 100 s."""
    assert 402 == pytest.approx(seconds_left(PARAMETERS, []))
