"""How well the noise of a trace is known from its course."""

from __future__ import annotations

import math

import numpy as np
import pytest

from perftrend.analysis.ratios import Values, noise_of_history, noise_of_samples, ratios


def history(*, traces: int = 400, columns: int = 32, noise: float = 0.02, seed: int = 7) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.asarray(1e6 * np.exp(noise * random.standard_normal((traces, columns))))


def test_deviation_is_that_of_the_values() -> None:
    deviations, freedom = noise_of_history(history())

    assert math.sqrt(np.mean(deviations**2)) == pytest.approx(0.02, rel=0.05)
    assert {15} == set(freedom.tolist())


def test_degrees_of_freedom_are_not_more_than_the_estimate_has() -> None:
    """The relative variance of s² is 2/f for f degrees of freedom."""
    deviations, freedom = noise_of_history(history(traces=4000))

    variances = deviations**2
    assert 2 * (variances.mean() / variances.std()) ** 2 >= 0.8 * freedom[0]


def test_one_change_does_not_pass_for_noise() -> None:
    values = history()
    values[:, 20:] *= 2

    deviations, _ = noise_of_history(values)

    assert np.median(deviations) == pytest.approx(0.02, rel=0.2)


def test_holes_do_not_matter() -> None:
    values = history()
    values[:, ::3] = np.nan

    deviations, _ = noise_of_history(values)

    assert math.sqrt(np.mean(deviations**2)) == pytest.approx(0.02, rel=0.1)


@pytest.mark.parametrize("columns", [8, 12, 32])
def test_no_more_differences_are_shown_than_promised_where_there_are_none(columns: int) -> None:
    """With 99 %, one in a hundred may be shown; so few degrees of freedom show less."""
    sides = [history(traces=5000, columns=columns, seed=seed) for seed in (1, 2)]
    left, right = (Values(side[:, -1], *noise_of_history(side)) for side in sides)

    found = ratios(left, right, lower_is_better=np.zeros(5000, dtype=bool))

    assert np.mean(~found.is_noise) < 0.012


@pytest.mark.parametrize("row", [[1.0] * 6 + [math.nan] * 4, [1.0] * 9 + [0.0], [math.nan] * 10])
def test_too_few_values_or_none_above_zero_tell_nothing(row: list[float]) -> None:
    deviations, freedom = noise_of_history(np.array([row, [2.0] * 10]))

    assert math.isnan(deviations[0])
    assert [0.0, [0, 4]] == [deviations[1], freedom.tolist()]


def test_short_history_tells_nothing() -> None:
    deviations, freedom = noise_of_history(np.ones((2, 3)))

    assert np.isnan(deviations).all()
    assert [0, 0] == freedom.tolist()


def test_trials_tell_the_error_of_their_average() -> None:
    error, freedom = noise_of_samples([99.0, 101.0, 99.0, 101.0])

    assert error == pytest.approx(0.01 * math.sqrt(4 / 3) / 2, rel=1e-3)
    assert 3 == freedom


@pytest.mark.parametrize("samples", [[], [5.0], [1.0, 0.0], [1.0, math.inf]])
def test_trials_that_tell_nothing(samples: list[float]) -> None:
    error, freedom = noise_of_samples(samples)

    assert math.isnan(error)
    assert 0 == freedom
