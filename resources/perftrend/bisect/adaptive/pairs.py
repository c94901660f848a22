"""The likelihood of the values of one test with two changes, for all pairs of classes at once.

With b = (aᵀPy, a'ᵀPy) and the matrix M of aᵀPa' with 1/v and 1/v' on its diagonal (see :mod:`.noise_model`),

    log L(two) = log L(none) + ½ bᵀM⁻¹b - ½ log(v v' det M).

Outliers are considered only for the most probable pairs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from perftrend.analysis.comparison.mixture import log_sum
from perftrend.analysis.comparison.model import log_gain
from perftrend.analysis.comparison.observations import Floats, Indices
from perftrend.bisect.adaptive.hypotheses import Hypotheses, HypothesisEvidence
from perftrend.bisect.adaptive.noise_model import SIZE_WEIGHTS, SIZES, Field

_MOST = 250
_LARGE = 1
"""Index of the part of a change's size that represents large changes."""
_MATTERS = math.log(1e-8)


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
    order = np.argpartition(weighted, -min(_MOST, weighted.size))[-_MOST:]
    best = order[weighted[order] > weighted.max() + _MATTERS]
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
