r"""The probability of another change that matters, in addition to those that were found.

However much is measured, a tiny change can always be hidden somewhere. A change matters if it is at least a
third of the largest that was found, or visible in few runs. With the probabilities h that class j holds a
further change, and those of its size Δ in each test, the probability of a further change that matters is

    Σ h(j) (1 - Π (1 - P(test affected) P(\|Δ\| matters))),

with the product over the tests. Two further changes are treated as if each were the only one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from perftrend.analysis.comparison.mixture import log_sum, normal_below
from perftrend.analysis.comparison.observations import Floats
from perftrend.bisect.adaptive.effects import size_of, visible
from perftrend.bisect.adaptive.noise_model import FLAT_VARIANCE, SIZES
from perftrend.bisect.adaptive.posterior import Belief, TestBelief

MATTERS = 1 / 3
"""Minimum size relative to the largest change that was found."""
PLAIN, SLIGHT = 4.0, 1.0
"""A change of at least ``PLAIN`` deviations of a run and ``SLIGHT`` per cent always matters, because
excluding it is cheap."""
FAILS = 30.0
"""Size assigned to a test that fails from a commit on, in about per cent."""
SEEN = 0.9
"""Fraction of the commits in which a visible change would have been shown."""


def probability(beliefs: Sequence[Belief]) -> float:
    """Return the probability of a further change that matters.

    :param beliefs: the posteriors before and after each change that was found.
    """
    last = beliefs[-1]
    least = MATTERS * _largest(beliefs)
    slight = np.ones(last.one.size)
    for test in last.tests:
        plain = max(PLAIN * _deviation(test), SLIGHT)
        slight *= 1 - last.effect_probability(test) * _at_least(test, min(least, plain))
    slight_pair = slight[last.prior.first] * slight[last.prior.second]
    return float(last.one @ (1 - slight) + last.two @ (1 - slight_pair))


def smallest_visible(beliefs: Sequence[Belief]) -> dict[str, float]:
    """Return the smallest relative change that would have been shown in addition to those found, by test.

    It might be missed in a tenth of the commits, those with the least evidence.
    """
    last = beliefs[-1]
    found = {}
    for test in last.tests:
        if test.evidence is None:
            continue
        field = test.evidence.field
        weight = np.diagonal(field.weight[test.evidence.best])
        seen = test.compared & (weight * FLAT_VARIANCE > 1)
        seen[list(last.found)] = False
        if seen.any():
            order = np.argsort(-weight[seen])
            share = np.cumsum(last.suspects.shares[seen][order])
            at = int(np.searchsorted(share, SEEN * share[-1]))
            found[test.data.name] = field.levels.relative(visible(float(weight[seen][order][at])))
    return found


def _largest(beliefs: Sequence[Belief]) -> float:
    """Return the size of the largest change that was found, in about per cent."""
    sizes = [
        _size(test, chosen)
        for belief, chosen in zip(beliefs, beliefs[-1].found, strict=False)
        for test in belief.tests
        if belief.effect_probability(test)[chosen] > 0.5  # noqa: PLR2004 - more probably than not
    ]
    return max(sizes, default=0.0)


def _size(test: TestBelief, chosen: int) -> float:
    if test.failing[chosen]:
        return FAILS
    return abs(size_of(test, chosen).mean) if test.evidence is not None else 0.0


def _deviation(test: TestBelief) -> float:
    """Return the deviation of one run in about per cent, from the best model of the noise."""
    if test.evidence is None:
        return math.inf
    if test.density is not None:
        return test.density.deviation
    return math.sqrt(test.evidence.field.run_variance(test.evidence.best))


def _at_least(test: TestBelief, least: float) -> Floats:
    """Return the probability that a change in each class, if it affects the test, has at least a size, (j,).

    It is 1 for a change that makes the test fail, and 0 for one without values on both sides.
    """
    if test.evidence is None:
        return test.failing.astype(np.float64)
    if test.density is not None:
        return np.where(test.failing, 1.0, np.where(test.compared, test.density.at_least(least), 0.0))
    field = test.evidence.field
    own = np.einsum("gjj->gj", field.weight)[..., np.newaxis] + 1 / SIZES
    mean, precision = field.pull[..., np.newaxis] / own, np.sqrt(own)
    beyond = normal_below((-least - mean) * precision) + normal_below((mean - least) * precision)
    by_part = test.evidence.one_by_part
    weights = np.exp(by_part - log_sum(by_part, axis=(0, 2))[:, np.newaxis])
    by_values = np.where(test.compared, (weights * beyond).sum(axis=(0, 2)), 0.0)
    return np.where(test.failing, 1.0, by_values)
