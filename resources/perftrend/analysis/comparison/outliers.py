"""Far-off observations: found one after the other, and excluded.

Two far-off observations hide each other: together they look like noise, and one of them is not improbable
without the other. The search therefore continues for a while past an observation that is only suspected, and
excludes those that are most probable together: with pₖ the probability that the k-th one is far off, given
that those before it are, the number with the largest Σ log(pₖ / (1 - pₖ)).
"""

from __future__ import annotations

import math

import numpy as np

from perftrend.analysis.comparison.model import Model, Steps
from perftrend.analysis.comparison.observations import Floats, Levels
from perftrend.analysis.comparison.priors import STEPS_OF_COMMITS, FarOff, NoiseGrid, Sizes

MOST = 6
"""The maximum number of exclusions, which is also at most a quarter of all."""
PROBABLE = 0.6
"""Observations are excluded if their log odds together exceed those of this probability."""
SUSPECTED = 0.05
"""An observation that is far off with this probability may be hidden by another one."""
HOPELESS = -4.0
"""Log odds below which a set of observations is not enlarged."""
_CERTAIN = 1 - 1e-12


def fit_without_outliers(
    levels: Levels,
    steps: Steps,
    *,
    noise: NoiseGrid,
    sizes: Sizes = STEPS_OF_COMMITS,
    far_off: FarOff | None = None,
    prior_none: float = -math.inf,
    prior_one: Floats | None = None,
    look_ahead: bool = True,
) -> tuple[Model, tuple[int, ...]]:
    """Fit the model without far-off observations.

    :param steps: the steps that are considered possible, shape (j, n).
    :param prior_none: logarithm of the prior probability of no step; the default rules it out.
    :param prior_one: of one at each position, shape (j,); None for equal probabilities.
    :param look_ahead: whether to search past an observation that is only suspected, which fits the model once
        more for each of them.
    :returns: the model of the rest, and the positions of the exclusions among the observations given to
        :func:`.levels`, in their order. Columns of ``steps`` belong to ``model.levels.positions``.
    """
    far_off = far_off or FarOff()
    prior = np.zeros(len(steps)) if prior_one is None else prior_one
    left_out: list[int] = []
    least = SUSPECTED if look_ahead else PROBABLE
    most = min(MOST, len(levels) // 4)
    best = model = Model(levels, noise, sizes, far_off)
    best_count, best_odds, odds = 0, 0.0, 0.0
    while len(left_out) < most:
        probable = model.far_off_given(steps, prior_none=prior_none, prior_one=prior)
        worst = int(np.argmax(probable))
        if probable[worst] < least or odds < HOPELESS:
            break
        odds += _log_odds(float(probable[worst]))
        left_out.append(int(levels.positions[worst]))
        levels, steps = levels.without([worst]), np.delete(steps, worst, axis=1)
        model = Model(levels, noise, sizes, far_off)
        if odds > best_odds + (0.0 if best_count else _log_odds(PROBABLE)):
            best, best_count, best_odds = model, len(left_out), odds
    return best, tuple(sorted(left_out[:best_count]))


def _log_odds(probability: float) -> float:
    probability = min(probability, _CERTAIN)
    return math.log(probability / (1 - probability))
