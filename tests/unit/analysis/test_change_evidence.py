from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.change_evidence import (
    MINIMUM_HISTORY,
    STEPS,
    chance_rate,
    limit,
    newest_change,
    scores,
)
from perftrend.analysis.noise import LONG_RUN, variance_of_average
from perftrend.model import Better, Direction, Samples

RATES = {Direction.REGRESSION: 0.001, Direction.PROGRESSION: 0.001}


@pytest.mark.parametrize(("step", "mean_runs"), [(1.0, 930.0), (0.5, 930.0)])
def test_limit_gives_the_mean_run_of_siegmunds_formula(step: float, mean_runs: float) -> None:
    """2 (e^b - b - 1) / δ² with b = limit + 1.166 δ."""
    b = limit(1 / mean_runs, step) + 1.166 * step

    assert 2 * (math.exp(b) - b - 1) / step**2 == pytest.approx(mean_runs)


def test_limit_agrees_with_the_printed_table() -> None:
    """A one-sided CUSUM with k = 1/2 and h = 5 has a mean quiet run of 930 in the handbooks."""
    assert limit(1 / 930, 1.0) == pytest.approx(5.0, abs=0.02)


def test_score_of_a_split_is_students_t_as_a_normal_score() -> None:
    """9, 11, 9, 11, 10 and 14: a step of 4 at s² = 4 / 4, m = 5/6, t = 4 √(5/6) = 3.65.

    Of four degrees of freedom 1.09 % lie beyond 3.65 on one side; normal is 2.30.
    """
    found = scores(np.array([9.0, 11.0, 9.0, 11.0, 10.0, 14.0]), Better.LOWER)

    assert found.weight.tolist() == pytest.approx([5 / 6])
    assert found.worse.tolist() == pytest.approx([2.30], abs=0.02)


@given(st.lists(st.integers(min_value=-50, max_value=50), min_size=8, max_size=30))
def test_scores_are_those_of_the_two_averages(values: list[int]) -> None:
    """In the order of the textbook's t of two samples, whatever the values."""
    samples = np.array(values, dtype=float)
    found = scores(samples, Better.LOWER)

    for runs, score in enumerate(found.worse, start=1):
        before, after = samples[:-runs], samples[-runs:]
        squares = before.var() * before.size + after.var() * runs
        if squares < 1e-9:
            continue
        error = math.sqrt(squares / (samples.size - 2) * (1 / before.size + 1 / runs))
        t = (after.mean() - before.mean()) / error
        f = samples.size - 2
        expected = (8 * f + 1) / (8 * f + 3) * math.sqrt(f * math.log1p(t * t / f))
        assert score == pytest.approx(math.copysign(expected, t), abs=1e-6)


def test_too_few_runs_have_no_split() -> None:
    values = np.arange(float(MINIMUM_HISTORY))

    assert 0 == scores(values, Better.HIGHER).worse.size
    assert newest_change(values, Better.HIGHER, RATES) is None


def test_step_out_of_no_noise_is_evidence_beyond_all_limits() -> None:
    assert (Direction.REGRESSION, 2) == newest_change(np.array([5.0] * 8 + [4.0] * 2), Better.HIGHER, RATES)


def test_noise_with_a_memory_needs_more_evidence() -> None:
    """Each run is 0.8 of the one before and noise; the same runs in a random order are a change."""
    rng = np.random.default_rng(9)
    walk = rng.normal(0.0, 1.0, 100)
    for run in range(1, 100):
        walk[run] += 0.8 * walk[run - 1]
    mixed = np.concatenate([rng.permutation(walk[:-10]), walk[-10:]])

    assert newest_change(walk, Better.HIGHER, RATES) is None
    assert (Direction.PROGRESSION, 9) == newest_change(mixed, Better.HIGHER, RATES)


def resembling(r: float, traces: int, runs: int) -> Samples:
    rng = np.random.default_rng(31)
    values = rng.normal(0.0, math.sqrt(1 - r**2), (runs, traces))
    values[0] = rng.normal(0.0, 1.0, traces)
    for run in range(1, runs):
        values[run] += r * values[run - 1]
    return values


@pytest.mark.parametrize("step", [step for step, _ in STEPS[:2]])
@pytest.mark.parametrize(("r", "point"), [(0.0, 0), (0.3, 3), (0.5, 6)])
def test_noise_of_known_memory_passes_the_evidence_at_its_rate(r: float, point: int, step: float) -> None:
    """First passages of a CUSUM that knows level, sigma and memory: 0.7 to 1.3 of what it states.

    The largest step has a twentieth of the false alarms: too few to be counted here.
    """
    values = resembling(r, traces=300, runs=600)
    sums = np.vstack([np.zeros((1, 300)), np.cumsum(values, axis=0)])
    windows = np.arange(1.0, 200.0)
    weights = 1 / variance_of_average(windows)[point]
    evidence = np.full(values.shape, -np.inf)
    for window, weight in zip(windows.astype(int).tolist(), weights.tolist(), strict=True):
        found = step * weight * (sums[window:] - sums[:-window]) / window - step**2 / 2 * weight
        np.maximum(evidence[window - 1 :], found, out=evidence[window - 1 :])
    nats = float(np.quantile(evidence.max(axis=0), 0.7))
    passed = evidence >= nats
    exposure = np.where(passed.any(axis=0), passed.argmax(axis=0) + 1, len(values)).sum()

    stated = float(chance_rate(np.full(LONG_RUN.shape, nats), step)[point, 0])
    assert float(passed.any(axis=0).sum()) / exposure == pytest.approx(stated, rel=0.3)
