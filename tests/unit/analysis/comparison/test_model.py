"""The fast formulas against the model written out: dense covariances, one hypothesis after the other."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from perftrend.analysis.comparison import (
    FarOff,
    Levels,
    Model,
    NoiseGrid,
    Observation,
    Sizes,
    levels,
    two_steps,
)
from perftrend.analysis.comparison.model import Steps
from perftrend.analysis.description import Floats

NOISE = NoiseGrid(deviations=(0.5, 2.0), drifts=(0.1, 2.0), drift_weights=(0.7, 0.3))
SIZES = Sizes()
FAR_OFF = FarOff()


def ranged(seed: int, *, builds: int = 4, size: int = 9) -> Levels:
    """Return observations of a range of builds with unequal numbers of samples, one of them far off."""
    rng = np.random.default_rng(seed)
    made = []
    for index in range(size):
        build = int(rng.integers(0, builds))
        y = rng.standard_normal(int(rng.integers(1, 5))) - 4.0 * (build > 1) - 9.0 * (index == size - 1)
        made.append(Observation(build, index * 0.3, tuple(np.exp(y / 100))))
    return levels(made)


def steps_of(known: Levels, builds: int = 4) -> Steps:
    return known.builds >= np.arange(1, builds)[:, np.newaxis]


def log_normal(y: Floats, covariance: Floats) -> float:
    quadratic = float(y @ np.linalg.solve(covariance, y))
    return -0.5 * (quadratic + np.linalg.slogdet(covariance)[1] + y.size * math.log(2 * math.pi))


def log_with_far_off(y: Floats, covariance: Floats) -> float:
    """Sum over which observation is far off: none, or one, which the others predict."""
    total = log_normal(y, covariance)
    terms = [total]
    for index in range(y.size):
        rest = np.delete(np.arange(y.size), index)
        gains = np.linalg.solve(covariance[np.ix_(rest, rest)], covariance[rest, index])
        residual = float(y[index] - gains @ y[rest])
        side = FAR_OFF.below if residual < 0 else 1 - FAR_OFF.below
        density = side / FAR_OFF.distance * math.exp(-abs(residual) / FAR_OFF.distance)
        odds = FAR_OFF.share / (1 - FAR_OFF.share)
        terms.append(log_normal(y[rest], covariance[np.ix_(rest, rest)]) + math.log(odds * density))
    return float(np.logaddexp.reduce(terms))


def dense(known: Levels, steps: list[Floats]) -> float:
    """Return the evidence of steps, all sums written out."""
    terms = []
    for (s, ps), (q, pq) in itertools.product(((0.5, 0.5), (2.0, 0.5)), ((0.1, 0.7), (2.0, 0.3))):
        noise = 100.0**2 + q**2 * np.minimum.outer(known.at_h, known.at_h) + np.diag(s**2 + known.errors)
        for scales in itertools.product((3.0, 15.0), repeat=len(steps)):
            covariance = noise + sum(
                scale**2 * np.outer(a, a) for scale, a in zip(scales, steps, strict=True)
            )
            weight = math.log(ps * pq * 0.5 ** len(steps))
            terms.append(weight + log_with_far_off(known.y, covariance))
    return float(np.logaddexp.reduce(terms))


@pytest.mark.parametrize("seed", range(4))
def test_evidence_is_that_of_the_model_written_out(seed: int) -> None:
    known = ranged(seed)
    steps = steps_of(known)
    designs = [each.astype(np.float64) for each in steps]
    model = Model(known, NOISE, SIZES, FAR_OFF)

    assert model.none() == pytest.approx(dense(known, []), abs=1e-6)
    assert model.one(steps).tolist() == pytest.approx([dense(known, [each]) for each in designs], abs=1e-6)
    first, second = np.array([0, 0, 2]), np.array([1, 2, 1])
    expected = [dense(known, [designs[i], designs[j]]) for i, j in zip(first, second, strict=True)]
    assert two_steps(model, steps, first, second).tolist() == pytest.approx(expected, abs=1e-6)


def test_positions_that_no_observation_tells_apart_are_as_probable() -> None:
    known = ranged(2)
    step = steps_of(known)

    found = Model(known, NOISE).one(step[[0, 2, 1, 0]])

    assert found[0] == found[3]
    assert found[[0, 1, 2]].tolist() == pytest.approx(Model(known, NOISE).one(step)[[0, 2, 1]].tolist())


@pytest.mark.parametrize("seed", range(3))
def test_known_size_is_that_of_all_sizes_tried(seed: int) -> None:
    """Each size on a fine grid, taken off the observations after the step, has its own evidence."""
    known = ranged(seed, builds=2)
    step = steps_of(known, 2)[0]
    quiet = FarOff(share=1e-12)
    posterior = Model(known, NOISE, SIZES, quiet).size(step)

    sizes = np.linspace(-40, 40, 801)
    log_weights = []
    for size in sizes:
        moved = replace(known, y=known.y - size * step)
        prior = sum(math.exp(-0.5 * (size / scale) ** 2) / scale for scale in (3.0, 15.0))
        log_weights.append(Model(moved, NOISE, SIZES, quiet).none() + math.log(prior))
    weights = np.exp(np.array(log_weights) - max(log_weights))
    weights /= weights.sum()

    assert posterior.mean == pytest.approx(float(weights @ sizes), abs=0.02)
    assert posterior.below(-4.0) == pytest.approx(
        float(weights[sizes < -4.0].sum() + weights[sizes == -4.0].sum() / 2), abs=0.01
    )


def test_size_does_not_follow_a_far_off_observation() -> None:
    y = [0.0, 0.3, -0.2, 0.1, -5.0, -5.2, -4.9, -60.0]
    made = [Observation(int(i > 3), i * 0.1, (math.exp(each / 100),) * 5) for i, each in enumerate(y)]
    known = levels(made)

    found = Model(known, NoiseGrid(), SIZES).size(known.builds == 1)

    assert found.quantile(0.5) == pytest.approx(-5.1, abs=0.3)


def test_probability_of_far_off_adds_up_to_less_than_one_and_names_the_one() -> None:
    known = ranged(1)

    found = Model(known, NOISE, SIZES).far_off_given(
        steps_of(known), prior_none=math.log(0.3), prior_one=np.log(np.full(3, 0.7 / 3))
    )

    assert known.y.size - 1 == int(np.argmax(found))
    assert float(found.sum()) <= 1.0


def test_known_deviation_tightens_what_is_known_of_the_noise() -> None:
    """Two starts each that agree by luck: a history of 3 % says that this is not all."""
    made = [Observation(i % 2, i * 0.02, (math.exp(-0.02 * (i % 2)),) * 5) for i in range(4)]
    known = levels(made)

    without = Model(known, NoiseGrid()).size(known.builds == 1).deviation
    with_history = Model(known, NoiseGrid(known_deviation=3.0)).size(known.builds == 1).deviation

    assert without < 0.7 * with_history
