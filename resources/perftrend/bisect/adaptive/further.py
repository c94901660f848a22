r"""Whether another change is worth looking for, beside those that were found.

However much is measured, a change of next to nothing can always be hidden somewhere. One that matters is at
least a third of the largest that was found, or plain to see in few runs. With the probabilities h that class
j holds a further change, and those of its size Δ in each test, a further change that matters has

    Σ h(j) (1 - Π (1 - P(test affected) P(\|Δ\| matters))),

the product over the tests, and for two of them alike, as if each were alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from perftrend.analysis.comparison.mixture import log_sum, normal_below
from perftrend.analysis.comparison.observations import Floats
from perftrend.bisect.adaptive.belief import Belief, TestBelief
from perftrend.bisect.adaptive.effects import size_of, visible
from perftrend.bisect.adaptive.field import FLAT_VARIANCE, SIZES

MATTERS = 1 / 3
"""Of the largest change that was found."""
PLAIN, SLIGHT = 4.0, 1.0
"""A change of so many deviations of a run matters, however large the largest is, for excluding it is cheap;
unless it is smaller than so many per cent."""
FAILS = 30.0
"""A test that fails from a commit on counts as this change, in about per cent."""
SEEN = 0.9
"""What is said to be seen is seen in this share of the commits."""


def probability(beliefs: Sequence[Belief]) -> float:
    """Return how probable a further change that matters is.

    :param beliefs: before and after each change that was found.
    """
    last = beliefs[-1]
    least = MATTERS * _largest(beliefs)
    slight = np.ones(last.one.size)
    for test in last.tests:
        plain = max(PLAIN * _deviation(test), SLIGHT)
        slight *= 1 - last.affected(test) * _at_least(test, min(least, plain))
    slight_pair = slight[last.prior.first] * slight[last.prior.second]
    return float(last.one @ (1 - slight) + last.two @ (1 - slight_pair))


def smallest_visible(beliefs: Sequence[Belief]) -> dict[str, float]:
    """Return the smallest relative change that would have been shown beside those found, by test.

    In the commits where it takes the largest one, a tenth of all, it might be missed.
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
        if belief.affected(test)[chosen] > 0.5  # noqa: PLR2004 - more probably than not
    ]
    return max(sizes, default=0.0)


def _size(test: TestBelief, chosen: int) -> float:
    if test.failing[chosen]:
        return FAILS
    return abs(size_of(test, chosen).mean) if test.evidence is not None else 0.0


def _deviation(test: TestBelief) -> float:
    """Return the deviation of one run in about per cent, as the most probable point of the grid has it."""
    if test.evidence is None:
        return math.inf
    if test.density is not None:
        return test.density.deviation
    return math.sqrt(test.evidence.field.run_variance(test.evidence.best))


def _at_least(test: TestBelief, least: float) -> Floats:
    """Return how probable a change in each class moves the test by so much, if it affects it, (j,).

    One that makes the test fail does; one that lies among failures alone could not be seen, and does not.
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
