from __future__ import annotations

import numpy as np
import pytest

from perftrend.analysis.noise import LONG_RUN, memory_weights, step_chance, variance_of_average
from perftrend.model import Samples


def autoregression(r: float, runs: int, *, seed: int = 3) -> Samples:
    values = np.random.default_rng(seed).normal(0.0, np.sqrt(1 - r**2), runs)
    for run in range(1, runs):
        values[run] += r * values[run - 1]
    return values


@pytest.mark.parametrize("runs", [1, 2, 5, 40])
def test_variance_of_an_average_is_the_sum_of_all_correlations(runs: int) -> None:
    """For an autoregression of 0.8, the last point of the grid."""
    lags = np.abs(np.subtract.outer(np.arange(runs), np.arange(runs)))

    assert variance_of_average(np.array([float(runs)]))[-1, 0] == pytest.approx(np.mean(0.8**lags))


def test_memory_of_a_long_history_is_found() -> None:
    weights = [memory_weights(autoregression(r, 400), 100) for r in (0.0, 0.4, 0.8)]
    inflations = [float(each @ LONG_RUN[:, 0]) for each in weights]

    assert inflations == pytest.approx([1.0, (1 + 0.4) / (1 - 0.4), (1 + 0.8) / (1 - 0.8)], rel=0.35)


def test_clear_step_is_no_memory() -> None:
    values = autoregression(0.0, 80)
    values[-20:] -= 3.0

    assert memory_weights(values, 20)[0] > 0.75


@pytest.mark.parametrize("values", [[1.0] * 6, [1.0] * 3 + [2.0] * 3, [1.0, 2.0] * 3, [1.0, 2.0]])
def test_weights_are_probabilities_where_nothing_is_left(values: list[float]) -> None:
    weights = memory_weights(np.array(values), len(values) // 2)

    assert float(weights.sum()) == pytest.approx(1.0)
    assert (weights > 0).all()


def test_step_is_probably_noise_where_runs_resemble_those_before() -> None:
    """The averages of the last ten runs and of those before lie 1.5 deviations apart in both."""
    chances = []
    for r in (0.0, 0.8):
        values = autoregression(r, 80)
        values[-10:] -= values[-10:].mean()
        values[:-10] -= values[:-10].mean()
        values[-10:] -= 1.5 * values.std()
        chances.append(step_chance(values, 10))

    assert chances[0] < 0.001
    assert chances[1] > 0.02


def test_step_out_of_no_noise_cannot_be_noise() -> None:
    values = np.array([5.0] * 40 + [4.0] * 5)

    assert (0.0, 1.0) == (step_chance(values, 5), step_chance(np.full(40, 5.0), 5))
