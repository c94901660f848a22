from __future__ import annotations

import math

import numpy as np
import pytest

from perftrend.analysis.comparison import (
    Levels,
    Model,
    NoiseGrid,
    Observation,
    Sizes,
    best_point,
    levels,
    predict,
)
from perftrend.analysis.description import Floats

S, Q, V = 1.5, 2.0, 4.0
NOISE = NoiseGrid(deviations=(S,), drifts=(Q,), drift_weights=(1.0,))
SIZES = Sizes(scales=(V,), weights=(1.0,), relative=(False,))


def ranged() -> Levels:
    rng = np.random.default_rng(3)
    builds = [0, 4, 4, 0, 2, 1, 3]
    y = rng.standard_normal((7, 5)) - 5.0 * np.array([[build > 1] for build in builds])
    return levels(
        [
            Observation(b, 10 + 0.4 * i, tuple(np.exp(row / 100)))
            for i, (b, row) in enumerate(zip(builds, y, strict=True))
        ]
    )


def conditioned(y: Floats, covariance: Floats) -> tuple[float, float]:
    """Return mean and variance of the last one, given all others."""
    gains = np.linalg.solve(covariance[:-1, :-1], covariance[:-1, -1])
    return float(gains @ y), float(covariance[-1, -1] - gains @ covariance[:-1, -1])


@pytest.mark.parametrize("at_h", [10.3, 15.0])
def test_prediction_is_that_of_the_model_written_out(at_h: float) -> None:
    known = ranged()
    steps = known.builds >= np.arange(1, 5)[:, np.newaxis]
    found = predict(Model(known, NOISE, SIZES), steps, at_h=at_h, point=0)

    times = np.append(known.at_h, at_h - 10)
    noise = 100.0**2 + Q**2 * np.minimum.outer(times, times) + (S**2 + known.errors[0]) * np.eye(8)
    assert (found.mean_none, found.variance_none) == pytest.approx(conditioned(known.y, noise))
    for after in (0, 1):
        for position, step in enumerate(steps):
            a = np.append(step, after)
            expected = conditioned(known.y, noise + V**2 * np.outer(a, a))
            assert expected == pytest.approx(
                (found.means[after, position, 0], found.variances[after, position, 0])
            )


def test_weights_of_the_parts_of_a_size_add_up() -> None:
    known = ranged()
    steps = known.builds >= np.arange(1, 5)[:, np.newaxis]

    found = predict(Model(known), steps, at_h=14.0, point=7)

    assert [1.0] * 4 == pytest.approx(found.weights.sum(axis=1).tolist())


def test_best_point_is_near_the_true_noise() -> None:
    rng = np.random.default_rng(0)
    known = levels(
        [Observation(i % 2, i / 60, (math.exp(0.02 * rng.standard_normal()),) * 5) for i in range(60)]
    )
    model = Model(known)

    s = model.noise.grid()[0][best_point(model, (known.builds == 1)[np.newaxis])]

    assert 1.3 < s < 3.0
