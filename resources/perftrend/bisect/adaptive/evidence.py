"""The likelihood of the values of one test, without a change, with one in each class, and with two.

With b = aᵀPy, d = aᵀPa + 1/v and the variance v of a change's size (see :mod:`.noise_model`),

    log L(one) = log L(none) + ½ b²/d - ½ log(v d),

summed over the parts of v; for two changes see :mod:`.pairs`. At most one observation may be an outlier in
each hypothesis; if one is found, it is excluded, and the rest is evaluated again.

Source: Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, equations 2.30, 2.43 and 5.12.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.comparison.mixture import log_sum
from perftrend.analysis.comparison.model import log_gain
from perftrend.analysis.comparison.observations import Floats, Indices, Levels
from perftrend.analysis.comparison.priors import FarOff, NoiseGrid
from perftrend.bisect.adaptive.hypotheses import Hypotheses, HypothesisEvidence, Likelihood
from perftrend.bisect.adaptive.noise_model import LAYOUTS, SIZE_WEIGHTS, SIZES, Field
from perftrend.bisect.adaptive.pairs import best_pair, of_pairs

_SURE, _MOST = 0.6, 6
"""A run that is an outlier with this probability is excluded, but at most this many runs."""
_COULD_MATTER = math.log(1e-8)
_MATTERS = math.log(1e-4)
"""Points of the grid and hypotheses of less weight are not evaluated in detail."""


class View(NamedTuple):
    """The best point of the grid for a layout."""

    point: int
    none: float
    """The probability of the layout if nothing changed."""
    one: Floats
    """The same if a change is in each class, (j,)."""


class ValueEvidence:
    """The evidence of the values of one test.

    :param levels: of the n measurements with a value.
    :param steps: 1 for measurements of commits that contain the class, (j, n).
    :param found: the steps of changes that were already found, (f, n).
    :param prior: of the hypotheses; it determines the outliers, but is not part of the likelihood.
    """

    def __init__(
        self,
        levels: Levels,
        steps: Floats,
        found: Floats,
        prior: Hypotheses,
        *,
        noise: NoiseGrid,
        far_off: FarOff | None = None,
    ) -> None:
        self._far_off = far_off or FarOff()
        self.prior = prior
        retained = np.arange(len(levels))
        while True:
            self.field = Field(
                levels.without([i for i in range(len(levels)) if i not in retained]),
                steps[:, retained],
                found[:, retained],
                noise,
                self._far_off,
            )
            suspicion = np.where(_is_spare(levels.builds, retained), self._evaluate_likelihood(), 0.0)
            if len(levels) - retained.size >= min(_MOST, len(levels) // 4) or suspicion.max() < _SURE:
                break
            retained = np.delete(retained, int(np.argmax(suspicion)))
        self.retained: Indices = retained
        """Indices of the observations that are not excluded."""
        left_out = np.delete(levels.y, retained) - (np.median(levels.y[retained]) if retained.size else 0.0)
        self._left_out = float(np.sum(self._far_off.log_density(left_out)))

    @property
    def of_all(self) -> Likelihood:
        """The likelihood, including that of the excluded observations as outliers."""
        none, one, two = self.likelihood
        return Likelihood(none + self._left_out, one + self._left_out, two + self._left_out)

    @property
    def views(self) -> list[View]:
        """The best point for each layout, with the probability of that layout given each hypothesis."""
        none = self.none_by_point.reshape(-1, len(LAYOUTS))
        one = self.one_by_point.reshape(*none.shape, -1)
        none_share = np.exp(log_sum(none, axis=0) - self.likelihood.none)
        one_share = np.exp(log_sum(one, axis=0) - self.likelihood.one)
        best = self.by_point.reshape(none.shape).argmax(axis=0)
        return [
            View(int(best[c]) * len(LAYOUTS) + c, float(none_share[c]), one_share[c])
            for c in range(len(LAYOUTS))
        ]

    def _evaluate_likelihood(self) -> Floats:
        """Compute the likelihood, and return the probability that each observation is an outlier."""
        field, prior = self.field, self.prior
        none = HypothesisEvidence(field.base + prior.none, field.rho(field.pulled, field.diagonal))
        by_none = none.gained
        by_one, alone = of_one(field, by_none.max(), prior)
        self.none_by_point: Floats = by_none - prior.none
        self.one_by_part: Floats = by_one
        self.one_by_point: Floats = log_sum(by_one, axis=2)
        weighted = self.one_by_point + prior.one
        self.by_point: Floats = np.logaddexp(by_none, log_sum(weighted, axis=1))
        # Include noise that only two changes explain.
        likely = np.maximum(self.by_point, best_pair(field, prior))
        points = np.flatnonzero(likely > likely.max() + _MATTERS)
        two, close = of_pairs(field, points, prior)
        self.likelihood = Likelihood(float(log_sum(self.none_by_point)), log_sum(by_one, axis=(0, 2)), two)
        logs = np.concatenate([by_none, alone.gained, close.gained])
        heavy = logs > logs.max() + _MATTERS
        weights = np.exp(logs[heavy] - logs.max())
        rho = np.concatenate([none.rho, alone.rho, close.rho])[heavy]
        shares: Floats = (weights / weights.sum()) @ np.exp(rho - log_gain(rho)[:, np.newaxis])
        return shares

    @property
    def best(self) -> int:
        """The most probable point of the grid."""
        return int(np.argmax(self.by_point))


def _is_spare(builds: Indices, retained: Indices) -> NDArray[np.bool_]:
    """Return which observations may be excluded: several of one commit are never all outliers, (k,)."""
    total = np.bincount(builds + 1)[builds[retained] + 1]
    left = np.bincount(builds[retained] + 1)[builds[retained] + 1]
    spare: NDArray[np.bool_] = (left > 1) | (total == 1)
    return spare


def of_one(field: Field, least: float, prior: Hypotheses) -> tuple[Floats, HypothesisEvidence]:
    """Return the evidence of one change, (g, j, parts of its size), and of the best ones with their prior.

    Outliers are considered only for hypotheses that could matter.

    :param least: the best evidence of any other hypothesis, including its prior.
    """
    own = np.einsum("gjj->gj", field.weight)[..., np.newaxis] + 1 / SIZES
    size = field.pull[..., np.newaxis] / own
    gain = 0.5 * (field.pull[..., np.newaxis] * size - np.log(own * SIZES))
    evidence = field.base[:, np.newaxis, np.newaxis] + SIZE_WEIGHTS + gain
    each = field.moved[:, :, np.newaxis]
    alpha = field.pulled[:, np.newaxis, np.newaxis] - each * size[..., np.newaxis]
    precision = field.diagonal[:, np.newaxis, np.newaxis] - each**2 / own[..., np.newaxis]
    weighted = evidence + prior.one[:, np.newaxis]
    limit = max(float(weighted.max()), least) + _COULD_MATTER
    where = weighted + field.far_off.log_bound(alpha, precision) > limit
    rho = field.rho(alpha[where], precision[where])
    evidence[where] += log_gain(rho)
    return evidence, HypothesisEvidence(weighted[where], rho)
