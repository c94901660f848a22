"""Whether a step between two groups is more than the noise of the trace, and how certain it is.

The shortest description alone splits pure noise too easily while the history is short: two runs
contain no information about the noise, and still it has to choose. A step is therefore reported only
if a test that accounts for the number of runs agrees. It is Student's t of the two averages, with the
deviation pooled over all groups of the partition,

    t = |μ2 - μ1| / (s √(1/n1 + 1/n2)),   s² = μ1 μ2 Σ n_g (s_g / μ_g)² / f,   f = Σ (n_g - 1),

where f is the degrees of freedom. Deviations are relative to the average of their group, because
the noise of a machine that is three times as fast is three times as large: the noise of a fast level
applies to a slow one only after scaling. A step at the newest sample is a single place to test. For
older ones the description chose, among n - 1 places, the one that looks most like a step; for these,
n - 1 times the probability of at least this t (Bonferroni) must not exceed ``chance``.

The confidence in a change, its effect size and the interval for its size use the same deviation. With a
flat prior for the two averages and 1/s for the deviation s, the posterior probability that the first run
after the change is the one at rank k of the n runs of both groups is

    p(k) ∝ (k (n - k))^(-1/2) · (SSE(k) + SSE of the other groups)^(-f/2).

Its shortest 95 % interval gives the runs between which the change occurred.

Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4, for the closed form of
the distribution for whole f; Smith, A Bayesian approach to inference about a change-point in a sequence of
random variables, 1975, for the position; Hedges, Distribution theory for Glass's estimator of effect size,
1981, for the effect size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from perftrend import errors
from perftrend.model import Group, Samples

LEVEL = 0.95
"""The probability of the intervals."""

KNOWN_NOISE = 4
"""Degrees of freedom from which on the noise counts as known."""


@dataclass(frozen=True, slots=True)
class Significance:
    """The conditions for reporting a step, in addition to a shorter description."""

    minimum_change: float = 0.01
    """Relative to the trend before. Twice the width that a search ends with: two lower bounds of
    the same rate are up to one such width apart."""
    chance: float = 0.0005
    """The accepted probability that pure noise causes a step of this size."""
    obvious_change: float = 0.25
    """Relative to the trend before; reported without the test while the noise is not known."""

    def __post_init__(self) -> None:
        for name in ("minimum_change", "chance", "obvious_change"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise errors.SettingsError(f"{name} is {value}; give a number from 0 to 1")

    @property
    def too_small(self) -> str:
        """The end of a sentence on a step that does not count."""
        return f"less than the {100 * self.minimum_change:.3g} % that counts"

    def doubt(self, groups: Sequence[Group], index: int, samples: Samples) -> str:
        """Return why the step to a group is not reported; empty if it is.

        :param groups: all groups of the partition of ``samples``.
        :param index: the group after the step, from 1.
        :param samples: run averages, shape (n,), NaN if a run has none.
        :returns: the end of a sentence for users.
        """
        before, after = groups[index - 1], groups[index]
        step, scale = abs(after.mean - before.mean), abs(before.mean)
        if step < self.minimum_change * scale:
            return self.too_small
        sizes = [sample_count(group, samples) for group in groups]
        freedom = sum(sizes) - len(sizes)
        if freedom < KNOWN_NOISE and step >= self.obvious_change * scale:
            return ""
        noise = pooled_deviation(groups, sizes, index)
        error = noise * math.sqrt(1 / sizes[index - 1] + 1 / sizes[index])
        # A step to the newest run alone has one place; any other may have been anywhere.
        places = 1 if index == len(groups) - 1 and sizes[index] == 1 else sum(sizes) - 1
        # A few equal runs do not show that there is no noise.
        is_known = freedom > 0 and (error > 0 or freedom >= KNOWN_NOISE)
        if is_known and places * chance_of(step / error if error else math.inf, freedom) <= self.chance:
            return ""
        return "too few runs to distinguish it from noise" if freedom < KNOWN_NOISE else "which can be noise"


DEFAULT_SIGNIFICANCE = Significance()


def sample_count(group: Group, samples: Samples) -> int:
    """Return the number of samples in a group; positions without a value do not count."""
    return int(np.count_nonzero(np.isfinite(samples[group.start : group.stop])))


def pooled_deviation(groups: Sequence[Group], sizes: Sequence[int], index: int) -> float:
    """Return the deviation on both sides of a step, pooled over all groups.

    If the groups do not all have the same sign (values around or at zero), the deviations cannot be
    scaled, and are pooled unscaled.

    :param groups: all groups of a partition.
    :param sizes: how many samples each of them has.
    :param index: the group after the step, from 1.
    :returns: in the unit of the samples; infinite if no group has two.
    """
    freedom = sum(sizes) - len(sizes)
    if not freedom:
        return math.inf
    levels = [group.mean for group in groups]
    if not (min(levels) > 0 or max(levels) < 0):
        levels = [1.0] * len(groups)
    each = zip(sizes, groups, levels, strict=True)
    relative = [math.sqrt(size) * group.stdev / level for size, group, level in each]
    here = math.sqrt(abs(levels[index - 1])) * math.sqrt(abs(levels[index]))
    return here * math.hypot(*relative) / math.sqrt(freedom)


def chance_of(t: float, freedom: int) -> float:
    """Return the probability that Student's t is at least this far from zero, on either side.

    :param t: not negative, infinity allowed.
    :param freedom: degrees of freedom, at least 1.
    """
    if math.isinf(t):
        return 0.0
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = term if freedom > 1 else 0.0
    for divisor in range(3 if odd else 2, freedom - 1, 2):
        term *= cosine**2 * (divisor - 1) / divisor
        total += term
    inside = 2 / math.pi * (angle + sine * total) if odd else sine * total
    return max(1.0 - inside, 0.0)


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
    deviation = pooled_deviation(groups, sizes, index)
    if not freedom or (not deviation and freedom < KNOWN_NOISE):
        return Certainty(math.nan, math.nan, math.nan, math.nan, last_before, first_after)
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
