"""The likelihood of the values of one test, without a change, with one in each class, and with two.

With b = aᵀPy, d = aᵀPa + 1/v and the variance v of a change's size (see :mod:`.noise_model`),

    log L(one) = log L(none) + ½ b²/d - ½ log(v d),

summed over the parts of v. With b = (aᵀPy, a'ᵀPy) and the matrix M of aᵀPa' with 1/v and 1/v' on its
diagonal, for all pairs of classes at once,

    log L(two) = log L(none) + ½ bᵀM⁻¹b - ½ log(v v' det M).

At most one observation may be an outlier in each hypothesis; if one is found, it is excluded, and the rest is
evaluated again. For two changes, outliers are considered only for the most probable pairs.

Source: Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, equations 2.30, 2.43 and 5.12.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.comparison.distributions import FarOff, NoiseGrid, log_sum
from perftrend.analysis.comparison.model import log_gain
from perftrend.analysis.comparison.observations import Floats, Indices, Levels
from perftrend.bisect.adaptive.noise_model import SIZE_WEIGHTS, SIZES, Field

_SURE, _MOST = 0.6, 6
"""A run that is an outlier with this probability is excluded, but at most this many runs."""
_COULD_MATTER = math.log(1e-8)
_MATTERS = math.log(1e-4)
"""Points of the grid and hypotheses of less weight are not evaluated in detail."""

_MOST_SYSTEMS = 250
_LARGE = 1
"""Index of the part of a change's size that represents large changes."""
_SYSTEM_MATTERS = math.log(1e-8)


class Hypotheses(NamedTuple):
    """The prior of no change, a change in one of j classes, or in two of them, k pairs."""

    none: float
    """Logarithm of the prior probability of no change."""
    one: Floats
    """Those of each class, (j,)."""
    two: Floats
    """Those of each pair, (k,)."""
    first: Indices
    """Classes of the pairs, (k,)."""
    second: Indices


class Likelihood(NamedTuple):
    """Log-likelihoods of the values, in nats."""

    none: float
    one: Floats
    """(j,)"""
    two: Floats
    """(k,)"""

    def total(self, prior: Hypotheses) -> float:
        """Return the log-likelihood of the values, averaged over the hypotheses."""
        parts = [np.array([self.none + prior.none]), self.one + prior.one, self.two + prior.two]
        return float(log_sum(np.concatenate(parts)))


def average(one: Likelihood, other: Likelihood, share: float) -> Likelihood:
    """Return the likelihood averaged over two models.

    :param share: the probability of the other one.
    """
    by_one, by_other = math.log1p(-share), math.log(share)
    return Likelihood(
        float(np.logaddexp(one.none + by_one, other.none + by_other)),
        np.logaddexp(one.one + by_one, other.one + by_other),
        np.logaddexp(one.two + by_one, other.two + by_other),
    )


class HypothesisEvidence(NamedTuple):
    """Evidence of h hypotheses at single points of the grid, including the prior of the point, in nats."""

    evidence: Floats
    """Without an outlier, (h,)."""
    rho: Floats
    """Log ratio of the probabilities of each observation as an outlier and as a usual run, (h, n)."""

    @property
    def gained(self) -> Floats:
        """The evidence if at most one observation is an outlier, (h,)."""
        return self.evidence + log_gain(self.rho)


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
        layouts = len(self.field.layouts)
        none = self.none_by_point.reshape(-1, layouts)
        one = self.one_by_point.reshape(*none.shape, -1)
        none_share = np.exp(log_sum(none, axis=0) - self.likelihood.none)
        one_share = np.exp(log_sum(one, axis=0) - self.likelihood.one)
        best = self.by_point.reshape(none.shape).argmax(axis=0)
        return [View(int(best[c]) * layouts + c, float(none_share[c]), one_share[c]) for c in range(layouts)]

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


class _Systems(NamedTuple):
    """Solved systems of two equations, ((a, c), (c, d)) (m, m') = b, all of one shape."""

    a: Floats
    c: Floats
    d: Floats
    m: Floats
    other: Floats
    """m'"""
    determinant: Floats

    def select(self, which: Indices) -> _Systems:
        """Return a selection of them, each with an axis for the observations."""
        return _Systems(*(each.ravel()[which][:, np.newaxis] for each in self))


def of_pairs(field: Field, points: Indices, prior: Hypotheses) -> tuple[Floats, HypothesisEvidence]:
    """Return the likelihood of each pair, (k,), and the evidence of the best ones with their prior.

    :param points: the points of the grid that matter.
    """
    if not prior.first.size:
        return np.empty(0), HypothesisEvidence(np.empty(0), np.empty((0, len(field.levels))))
    systems, gains = _solve(field, points, prior)
    evidence = field.base[points][:, np.newaxis, np.newaxis, np.newaxis] + gains
    weighted = (evidence + prior.two[:, np.newaxis, np.newaxis]).ravel()
    order = np.argpartition(weighted, -min(_MOST_SYSTEMS, weighted.size))[-_MOST_SYSTEMS:]
    best = order[weighted[order] > weighted.max() + _SYSTEM_MATTERS]
    g, k, *_ = np.unravel_index(best, evidence.shape)
    rho = _far_off(field, systems.select(best), points[g], (prior.first[k], prior.second[k]))
    gained = evidence.ravel()
    gained[best] += log_gain(rho)
    return log_sum(gained.reshape(evidence.shape), axis=(0, 2, 3)), HypothesisEvidence(weighted[best], rho)


def best_pair(field: Field, prior: Hypotheses) -> Floats:
    """Return the evidence of the best pair at each point of the grid, including its prior, (g,).

    Outliers are not considered, and all sizes are assumed to be large.
    """
    if not prior.first.size:
        return np.full(field.base.size, -np.inf)
    first, second, size = prior.first, prior.second, SIZES[_LARGE]
    own = np.einsum("gjj->gj", field.weight) + 1 / size
    a, d, c = own[:, first], own[:, second], field.weight[:, first, second]
    b, other = field.pull[:, first], field.pull[:, second]
    determinant = a * d - c**2
    gains = 0.5 * (
        (d * b**2 - 2 * c * b * other + a * other**2) / determinant - np.log(determinant * size**2)
    )
    best: Floats = field.base + (gains + prior.two).max(axis=1) + 2 * SIZE_WEIGHTS[_LARGE]
    return best


def _solve(field: Field, points: Indices, prior: Hypotheses) -> tuple[_Systems, Floats]:
    """Return the systems and their gains, of shape (points, k, parts of one size, of the other)."""
    first, second = prior.first, prior.second
    weight, pull = field.weight[points], field.pull[points]
    own = np.einsum("gjj->gj", weight)[..., np.newaxis, np.newaxis]
    a, d = own[:, first] + 1 / SIZES[:, np.newaxis], own[:, second] + 1 / SIZES
    c = weight[:, first, second][..., np.newaxis, np.newaxis]
    b, other = pull[:, first][..., np.newaxis, np.newaxis], pull[:, second][..., np.newaxis, np.newaxis]
    determinant = a * d - c**2
    m, m_other = (d * b - c * other) / determinant, (a * other - c * b) / determinant
    sizes = np.add.outer(SIZE_WEIGHTS, SIZE_WEIGHTS)
    scale = np.log(determinant * np.multiply.outer(SIZES, SIZES))
    gains: Floats = sizes + 0.5 * (b * m + other * m_other - scale)
    return _Systems(*np.broadcast_arrays(a, c, d, m, m_other, determinant)), gains


def _far_off(field: Field, systems: _Systems, g: Indices, pair: tuple[Indices, Indices]) -> Floats:
    """Return the log ratio of the probabilities of each observation as outlier and as usual run, (h, n)."""
    one, other = field.moved[g, pair[0]], field.moved[g, pair[1]]
    alpha = field.pulled[g] - one * systems.m - other * systems.other
    reduction = systems.d * one**2 - 2 * systems.c * one * other + systems.a * other**2
    return field.rho(alpha, field.diagonal[g] - reduction / systems.determinant)
