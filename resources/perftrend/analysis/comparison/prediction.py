"""The prediction of one more observation, under no step and under one at each position.

At one point (s, q) of the grid everything is normal: an observation at time t* has the covariances
k = 100² + q² min(t, t*) with the others, plus v if both are after the step. Its mean is therefore kᵀK⁻¹y and
its variance k* - kᵀK⁻¹k. An experiment is more informative the further these means are apart, in deviations.

Source: Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, equations 2.25 and 2.26.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftrend.analysis.comparison.mixture import log_sum
from perftrend.analysis.comparison.model import Model, Steps
from perftrend.analysis.comparison.observations import Floats
from perftrend.analysis.comparison.priors import LEVEL_DEVIATION


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """Means and variances of an observation's level, on the scale of :attr:`.Levels.y`.

    The parts of a step's size are separate: k of them, for j positions.
    """

    mean_none: float
    variance_none: float
    weights: Floats
    """How probable each part of the size is, given the step, (j, k)."""
    means: Floats
    """Index 0: of an observation before the step, 1: after it; (2, j, k)."""
    variances: Floats
    """The same shape."""


def best_point(model: Model, steps: Steps) -> int:
    """Return the point of the grid that is most probable if all hypotheses have the same prior.

    :param steps: shape (j, n).
    """
    found = model.solve_steps(steps)
    gain = model.gain(found.alpha, found.precision)
    none = model.base + model.gain(model.pulled, model.diagonal)
    return int(np.argmax(np.logaddexp(none, log_sum(found.evidence + gain, axis=(1, 2)))))


def predict(model: Model, steps: Steps, *, at_h: float, point: int) -> Prediction:
    """Predict one more observation, with as many samples as the others.

    :param steps: shape (j, n).
    :param at_h: when, in hours since the same point in time as the observations.
    :param point: of the grid, see :func:`best_point`.
    """
    known, found = model.levels, model.solve_steps(steps)
    level, walk = LEVEL_DEVIATION**2, float(model.drifts[point]) ** 2
    later = at_h - known.origin_h
    shared = level + walk * np.minimum(known.at_h, later)
    own = level + walk * later + float(model.of_one[point])
    moved = model.precision[point] @ shared
    mean_none = float(shared @ model.pulled[point])
    variance_none = own - float(shared @ moved)
    # After the step v is added to the covariances; before it, nothing is.
    v = np.stack([np.zeros_like(found.variances[point]), found.variances[point]])[:, np.newaxis]
    weight, pull = found.weight[point][:, np.newaxis], found.pull[point][:, np.newaxis]
    met = (steps @ moved)[:, np.newaxis]
    d = weight + 1 / found.variances[point]
    reached = met + v * weight
    evidence = found.evidence[point]
    return Prediction(
        mean_none=mean_none,
        variance_none=variance_none,
        weights=np.exp(evidence - log_sum(evidence, axis=1)[:, np.newaxis]),
        means=mean_none + v * pull - reached * pull / d,
        variances=variance_none + v - 2 * v * met - v**2 * weight + reached**2 / d,
    )
