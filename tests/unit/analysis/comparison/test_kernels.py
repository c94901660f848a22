from __future__ import annotations

import math

import numpy as np
import pytest

from perftrend.analysis.comparison import Model, Observation, levels
from perftrend.analysis.comparison.estimation import fit_kernels


def measured(step: float, noise: np.ndarray) -> list[Observation]:
    """Measure alternately; the patch is a step, in per cent of the logarithm, from its parent."""
    return [
        Observation(index % 2, index / 50, (3e5 * math.exp((step * (index % 2) + each) / 100),))
        for index, each in enumerate(noise.tolist())
    ]


def two_speeds(seed: int, count: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return 0.3 * random.standard_normal(count) - 47 * (random.random(count) < 0.45)


@pytest.mark.parametrize("step", [-30.0, -3.0, 0.0, 2.0, 400.0])
def test_difference_is_that_of_values_at_the_same_speed(step: float) -> None:
    size = fit_kernels(levels(measured(step, two_speeds(1, 24)))).size()

    assert step == pytest.approx(size.quantile(0.5), abs=max(0.5, 0.01 * abs(step)))
    assert size.quantile(0.005) < step < size.quantile(0.995)


def test_interval_is_as_narrow_as_the_speeds_are_sharp() -> None:
    """Values of one speed scatter by 0.3 %, all of them by 24 %."""
    size = fit_kernels(levels(measured(-3.0, two_speeds(2, 24)))).size()

    assert size.quantile(0.995) - size.quantile(0.005) < 1.5


@pytest.mark.parametrize(
    ("noise", "kernels_are_better"),
    [(two_speeds(3, 24), True), (2 * np.random.default_rng(3).standard_normal(24), False)],
    ids=["two speeds", "normal"],
)
def test_evidence_says_which_noise_it_is(noise: np.ndarray, kernels_are_better: bool) -> None:
    known = levels(measured(-3.0, noise))

    normal = float(Model(known).one((known.builds == 1)[np.newaxis])[0])

    assert kernels_are_better == (fit_kernels(known).evidence > normal)


def test_order_in_which_values_are_given_does_not_matter() -> None:
    made = measured(-3.0, two_speeds(4, 12))

    given, reversed_ = (fit_kernels(levels(each)) for each in (made, made[::-1]))

    assert given.evidence == pytest.approx(reversed_.evidence)
    assert given.size().mean == pytest.approx(reversed_.size().mean)
