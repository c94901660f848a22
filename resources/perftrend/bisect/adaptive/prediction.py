"""Prediction of the next run of a commit under each hypothesis, as normal distributions.

With k the covariance of the new run with the old ones, κ its own variance, and a* 1 if its commit contains
the change, the expected level is kᵀPy + (a* - kᵀPa) Δ, with the variance κ - kᵀPk + (a* - kᵀPa)² var Δ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.comparison.observations import Floats, Indices
from perftrend.bisect.adaptive.evidence import View
from perftrend.bisect.adaptive.noise_model import FLAT_VARIANCE, SIZE_WEIGHTS, SIZES, Field
from perftrend.bisect.adaptive.posterior import Belief, TestBelief

_MOST_PAIRS = 20
_NEGLIGIBLE = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class MeasurementPlan:
    """Commits that could be measured, m of them."""

    commits: Sequence[str]
    inside: Floats
    """The fraction of each class that they contain, (m, j)."""
    at_h: Floats
    """Time of the run, in hours since the first measurement, (m,)."""
    new: NDArray[np.bool_]
    """Whether they have to be built, (m,)."""


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """The level under p hypotheses; a class that a commit splits counts as two."""

    weights: Floats
    """(m, p); they sum up to the probability of the view."""
    means: Floats
    variances: Floats
    """Without the noise of the run itself, (m, p)."""
    noise: float
    """Variance of one run."""


def predict(belief: Belief, test: TestBelief, view: View, plan: MeasurementPlan) -> Parts:
    """Predict the next run of each commit, for one test, at one point of the grid."""
    assert test.evidence is not None  # noqa: S101 - for the reader
    field, g = test.evidence.field, view.point
    _, q, c, _ = (each[g] for each in field.grid)
    at = plan.at_h - test.begin_h
    found = list(belief.found)
    known = plan.inside[:, found]
    index = np.array([belief.suspects.history.index(commit) for commit in plan.commits])
    cross = (
        FLAT_VARIANCE * (1 + known @ field.steps[found])
        + q**2 * np.minimum(at[:, np.newaxis], field.levels.at_h)
        + c**2 * np.equal.outer(index, field.levels.builds)
    )
    own = FLAT_VARIANCE * (1 + (known**2).sum(axis=1)) + q**2 * at + c**2
    mean = cross @ field.pulled[g]
    variance = own - np.einsum("mn,mn->m", cross @ field.precision[g], cross)
    reach = cross @ field.moved[g].T
    sizes, spreads = _sizes(field, g)

    weights, means, variances = [], [mean[:, np.newaxis]], [variance[:, np.newaxis]]
    held = belief.one * belief.effect_probability(test)
    for stepped, share in ((1.0, plan.inside), (0.0, 1 - plan.inside)):
        means.append(mean[:, np.newaxis] + (stepped - reach) * sizes)
        variances.append(variance[:, np.newaxis] + (stepped - reach) ** 2 * spreads)
        weights.append(held * view.one * share)
    left = np.full(mean.size, 1 - held.sum())
    of_pairs = float(held @ view.one / held.sum()) if held.any() else view.none
    pairs = _heavy(belief)
    first, second = belief.prior.first[pairs], belief.prior.second[pairs]
    covariance, both = _two_sizes(field, g, first, second)
    outside = 1 - plan.inside[:, first], 1 - plan.inside[:, second]
    for both_stepped in np.ndindex(2, 2):
        step = np.array(both_stepped) - np.stack([reach[:, first], reach[:, second]], axis=2)
        means.append(mean[:, np.newaxis] + (step * both).sum(axis=2))
        variances.append(variance[:, np.newaxis] + np.einsum("mki,kij,mkj->mk", step, covariance, step))
        share = np.abs(outside[0] - both_stepped[0]) * np.abs(outside[1] - both_stepped[1])
        weights.append(belief.two[pairs] * of_pairs * share)
    left -= belief.two[pairs].sum()
    rest = np.maximum(left, 0.0)[:, np.newaxis] * view.none
    return Parts(
        np.concatenate([rest, *weights], axis=1),
        np.concatenate(means, axis=1),
        np.concatenate(variances, axis=1),
        field.run_variance(g),
    )


def _sizes(field: Field, g: int) -> tuple[Floats, Floats]:
    """Return mean and variance of the size of a change in each class, at a point, (j,)."""
    own = np.diagonal(field.weight[g])[:, np.newaxis] + 1 / SIZES
    mean = field.pull[g][:, np.newaxis] / own
    logs = SIZE_WEIGHTS + 0.5 * (field.pull[g][:, np.newaxis] * mean - np.log(own * SIZES))
    share = np.exp(logs - logs.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    average = (share * mean).sum(axis=1)
    return average, (share * (1 / own + mean**2)).sum(axis=1) - average**2


def _two_sizes(field: Field, g: int, first: Indices, second: Indices) -> tuple[Floats, Floats]:
    """Return covariance, (k, 2, 2), and means, (k, 2), of the sizes of two changes, for each pair."""
    chosen = np.stack([first, second], axis=1)
    weight = field.weight[g][chosen[:, :, np.newaxis], chosen[:, np.newaxis]]
    covariance = np.asarray(np.linalg.inv(weight + np.eye(2) / SIZES[1]), np.float64)
    return covariance, np.einsum("kij,kj->ki", covariance, field.pull[g][chosen])


def _heavy(belief: Belief) -> Indices:
    order = np.argsort(-belief.two, kind="stable")[:_MOST_PAIRS]
    return order[belief.two[order] > _NEGLIGIBLE]
