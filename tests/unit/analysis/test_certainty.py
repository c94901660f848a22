from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.mdl.partitions import describe_runs
from perftrend.analysis.significance import Certainty, certainty, quantile
from perftrend.model import Group, Samples

NAN = math.nan


def two_groups(samples: Samples, at: int) -> list[Group]:
    parts = [(0, at), (at, samples.size)]
    return [
        Group(start, stop, float(np.nanmean(samples[start:stop])), float(np.nanstd(samples[start:stop])), 0.0)
        for start, stop in parts
    ]


def judged(samples: list[float], at: int) -> Certainty:
    values = np.array(samples)
    return certainty(values, two_groups(values, at), 1)


def test_size_and_its_interval_as_worked_by_hand() -> None:
    """9, 11 and 18, 22 stray by a tenth: s² = 10 · 20 (0.02 + 0.02) / 2 = 4, the error of the step 10 is 2.

    t of two degrees of freedom at 95 % is 4.303. Hedges: 10/2 (1 - 3/7).
    """
    found = judged([9.0, 11.0, 18.0, 22.0], 2)

    assert found.low == pytest.approx(10 - 4.303 * 2, rel=1e-3)
    assert found.high == pytest.approx(10 + 4.303 * 2, rel=1e-3)
    assert found.effect_size == pytest.approx(5 * 4 / 7)


def test_confidence_counts_the_places_that_a_step_could_have() -> None:
    """Beyond 5 = 10 / 2, two degrees of freedom have 1 - 5 / √(5² + 2) = 0.0377; three places."""
    assert judged([9.0, 11.0, 18.0, 22.0], 2).confidence == pytest.approx(1 - 3 * 0.03775, abs=1e-4)


def test_two_equal_runs_are_no_certainty() -> None:
    """They may be equal by chance; a deviation of 0 would make any step certain."""
    found = judged([100.0, 100.0, 98.9], 2)

    assert all(map(math.isnan, (found.confidence, found.low, found.high, found.effect_size)))


def test_equal_runs_whose_average_is_rounded_are_no_certainty_either() -> None:
    """0.1 three times has the average 0.10000000000000002 in floating point."""
    mean, deviation = describe_runs(np.array([0.1, 0.1, 0.1]))

    assert (0.1, 0.0) == (mean, deviation)


def test_clear_step_lies_between_two_runs() -> None:
    """Steps of 40 deviations: the change is between run 5 and run 6."""
    found = judged([10.0, 10.1, 9.9, 10.0, 10.1, 9.9, 14.0, 14.1, 13.9, 14.0, 14.1, 13.9], 6)

    assert (5, 6) == (found.last_before, found.first_after)


def test_run_in_the_middle_leaves_the_place_open() -> None:
    """Run 6 lies half-way: it may be the last of the old group or the first of the new one."""
    found = judged([10.0, 10.2, 9.8, 10.0, 10.2, 9.8, 11.0, 12.0, 12.2, 11.8, 12.0, 12.2, 11.8], 7)

    assert (5, 7) == (found.last_before, found.first_after)


def test_positions_are_those_of_runs_with_a_value() -> None:
    gaps = [10.0, 10.1, NAN, 9.9, 10.0, NAN, NAN, 14.0, 14.1, NAN, 13.9, 14.0]

    assert (4, 7) == (judged(gaps, 7).last_before, judged(gaps, 7).first_after)


def test_unknown_noise_gives_no_confidence() -> None:
    found = judged([10.0, 9.0], 1)

    assert math.isnan(found.confidence)
    assert math.isnan(found.low)
    assert (0, 1) == (found.last_before, found.first_after)


def test_step_without_noise_is_certain() -> None:
    found = judged([1.0] * 5 + [3.0] * 5, 5)

    assert found.confidence == pytest.approx(1.0)
    assert math.inf == found.effect_size
    assert (4, 5) == (found.last_before, found.first_after)


@pytest.mark.parametrize("sigmas", [1.0, 2.0, 4.0])
def test_intervals_hold_what_they_promise(sigmas: float) -> None:
    """Of 400 simulated steps at run 35, at least 93 % lie within both intervals."""
    rng = np.random.default_rng(11)
    held = []
    for _ in range(400):
        samples = rng.normal(100.0, 1.0, 60)
        samples[35:] += sigmas
        errors = [samples[:at].var() * at + samples[at:].var() * (60 - at) for at in range(1, 60)]
        found = certainty(samples, two_groups(samples, int(np.argmin(errors)) + 1), 1)
        held.append((found.last_before < 35 <= found.first_after, found.low <= sigmas <= found.high))

    place, size = np.mean(held, axis=0)
    assert place >= 0.93
    assert size >= 0.93


def test_interval_of_the_place_narrows_as_the_step_grows() -> None:
    noise = np.random.default_rng(2).normal(0.0, 1.0, 60)

    def width(sigmas: float) -> int:
        samples = noise + np.repeat([0.0, sigmas], 30)
        found = certainty(samples, two_groups(samples, 30), 1)
        return found.first_after - found.last_before

    assert width(0.7) > width(1.2) > width(8.0)


@pytest.mark.parametrize(
    ("level", "freedom", "expected"),
    [
        (0.95, 1, 12.706), (0.95, 2, 4.303), (0.95, 10, 2.228), (0.95, 60, 2.000),
        (0.99, 1, 63.657), (0.99, 2, 9.925), (0.99, 5, 4.032), (0.99, 10, 3.169), (0.99, 30, 2.750),
    ],
)  # fmt: skip
def test_quantile_agrees_with_the_printed_table(level: float, freedom: int, expected: float) -> None:
    assert quantile(level, freedom) == pytest.approx(expected, abs=6e-4)


@given(st.lists(st.integers(min_value=-100, max_value=100), min_size=4, max_size=20), st.data())
def test_place_is_always_between_two_runs_of_the_groups(values: list[int], data: st.DataObject) -> None:
    at = data.draw(st.integers(min_value=1, max_value=len(values) - 1))
    found = judged([float(value) for value in values], at)

    assert 0 <= found.last_before < found.first_after < len(values)
