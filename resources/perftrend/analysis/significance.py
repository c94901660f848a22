"""Whether a step between two groups is more than the noise of the trace.

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

Source of the distribution's closed form for whole f: Abramowitz and Stegun, Handbook of
Mathematical Functions, 26.7.3 and 26.7.4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perftrend import errors
from perftrend.model import Group, Samples

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
        places = 1 if sizes[-1] == 1 else sum(sizes) - 1
        if freedom and places * chance_of(step / error if error else math.inf, freedom) <= self.chance:
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
