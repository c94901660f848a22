"""How certain a change is: confidence, effect size, and intervals for its size and its position.

The deviation is pooled over all groups of the partition, relative to their averages, as in
:mod:`.significance`; it has f degrees of freedom. With a flat prior for the two averages and 1/s
for the deviation s, the posterior probability that the first run after the change is the one at rank k
of the n runs of both groups is

    p(k) ∝ (k (n - k))^(-1/2) · (SSE(k) + SSE of the other groups)^(-f/2).

Its shortest 95 % interval gives the runs between which the change occurred.

Source: Smith, A Bayesian approach to inference about a change-point in a sequence of random
variables, 1975, for the position; Hedges, Distribution theory for Glass's estimator of effect
size, 1981, for the effect size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from perftrend.analysis.significance import chance_of, pooled_deviation, sample_count
from perftrend.model import Group, Samples

LEVEL = 0.95
"""The probability of the intervals."""


@dataclass(frozen=True, slots=True)
class Certainty:
    """Statistics of one change in addition to its two averages."""

    confidence: float
    """One less the probability that noise alone causes such a step at the place that looks most
    like one (Student's t, Bonferroni over the places); NaN if the noise is not known."""
    effect_size: float
    """Hedges' g: the step in standard deviations, corrected for few runs; negative if the
    values fell; NaN if the noise is not known, infinite if there is none."""
    low: float
    """The least step at 95 %, in the unit of the samples; NaN if the noise is not known."""
    high: float
    """The largest step at 95 %."""
    last_before: int
    """Position of the last run that is before the change for certain, at 95 %."""
    first_after: int
    """Position of the first run that is after the change for certain, at 95 %."""


def certainty(samples: Samples, groups: Sequence[Group], index: int) -> Certainty:
    """Return how certain the change at the start of a group is.

    :param samples: run averages, shape (n,), any unit, NaN if a run has none.
    :param groups: all groups of the partition of ``samples``.
    :param index: the group after the change, from 1.
    :returns: 95 % intervals. They assume that the partition is correct: that there is one
        change within the two groups, and no other change that hides it.
    """
    sizes = [sample_count(group, samples) for group in groups]
    freedom = sum(sizes) - len(sizes)
    squares = [size * float(group.stdev) ** 2 for size, group in zip(sizes, groups, strict=True)]
    before, after = groups[index - 1], groups[index]
    step = float(after.mean - before.mean)
    last_before, first_after = _place(samples, before, after, math.fsum(squares), freedom)
    if not freedom:
        return Certainty(math.nan, math.nan, math.nan, math.nan, last_before, first_after)
    deviation = pooled_deviation(groups, sizes, index)
    error = deviation * math.sqrt(1 / sizes[index - 1] + 1 / sizes[index])
    places = max(sizes[index - 1] + sizes[index] - 1, 1)
    chance = min(places * chance_of(abs(step) / error if error else math.inf, freedom), 1.0)
    reach = quantile(LEVEL, freedom) * error
    return Certainty(
        confidence=1.0 - chance,
        effect_size=_hedges(step, deviation, freedom),
        low=step - reach,
        high=step + reach,
        last_before=last_before,
        first_after=first_after,
    )


@cache
def quantile(level: float, freedom: int) -> float:
    """Return the distance from zero within which Student's t is with a probability.

    :param level: the probability, below 1.
    :param freedom: degrees of freedom, at least 1.
    """
    high = 1.0
    while chance_of(high, freedom) > 1 - level:
        high *= 2
    low = 0.0
    for _ in range(50):
        middle = (low + high) / 2
        if chance_of(middle, freedom) > 1 - level:
            low = middle
        else:
            high = middle
    return high


def _hedges(step: float, deviation: float, freedom: int) -> float:
    if not deviation:
        return math.copysign(math.inf, step) if step else 0.0
    return step / deviation * (1 - 3 / (4 * freedom - 1))


def _place(samples: Samples, before: Group, after: Group, squares: float, freedom: int) -> tuple[int, int]:
    """Return the last position certainly before the change and the first one certainly after it."""
    span = np.arange(before.start, after.stop)
    positions = span[np.isfinite(samples[span])]
    values = samples[positions]
    offsets = values - values.mean()
    size = values.size
    ranks = np.arange(1.0, size)
    gained = np.cumsum(offsets)[:-1] ** 2 * size / (ranks * (size - ranks))
    # The remaining squares if the step is at each rank, including those of the other groups.
    chosen = int(np.searchsorted(positions, after.start)) - 1
    left = squares + gained[chosen] - gained
    weights = _posterior(left, ranks * (size - ranks), freedom, chosen)
    first, last = _shortest(weights)
    return int(positions[first]), int(positions[last + 1])


def _posterior(left: Samples, balance: Samples, freedom: int, chosen: int) -> Samples:
    """Return the probability of each rank, shape (n - 1,)."""
    floor = 1e-12 * max(float(left.max()), np.finfo(np.float64).tiny)
    if not freedom or left[chosen] <= floor:
        # Without noise, or with unknown noise, the step is at the position of the partition.
        certain: Samples = np.eye(1, left.size, chosen)[0]
        return certain
    logarithm = -np.log(balance) / 2 - freedom / 2 * np.log(np.maximum(left, floor))
    weights: Samples = np.exp(logarithm - logarithm.max())
    return weights / float(weights.sum())


def _shortest(weights: Samples) -> tuple[int, int]:
    """Return first and last index of the shortest 95 % interval."""
    sums = np.concatenate([[0.0], np.cumsum(weights)])
    stops = np.searchsorted(sums, sums[:-1] + LEVEL * sums[-1] - 1e-12)
    starts = np.arange(weights.size)[stops < sums.size]
    lengths = stops[: starts.size] - starts
    best = int(np.argmin(lengths))
    return best, int(stops[best]) - 1
