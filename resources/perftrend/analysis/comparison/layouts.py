r"""Differences between builds that are caused only by the memory layout of their code and data.

No order of measuring distinguishes such a difference from that of the patch, however often both builds are
measured. It shows if each build is measured in several layouts (variants). With m the averages of the V
layouts of each build, s² their variance about the average of their build, pooled over both builds, and
D the difference of these two averages,

    t = D / (s √(1/V\ :sub:`parent` + 1/V\ :sub:`patch`))

has Student's t distribution with V\ :sub:`parent` + V\ :sub:`patch` - 2 degrees of freedom if the patch
changes nothing. s includes the noise of the measurements. Without that noise, the remainder is the variance
that layouts add to that of the difference.

Source: Mytkowicz, Diwan, Hauswirth and Sweeney, Producing wrong data without doing anything obviously wrong,
2009; Student, The probable error of a mean, 1908.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, variance

from perftrend.analysis.comparison.observations import PARENT, PATCH, Levels, Observation
from perftrend.analysis.significance import chance_of, quantile

_FEWEST = 2
"""Layouts of a build that are required to estimate how much it differs between them."""


@dataclass(frozen=True, slots=True)
class Layouts:
    """A difference and its error, by layouts, in 100 ln(value)."""

    difference: float
    error: float
    """The standard error of the difference, by the layouts alone."""
    freedom: int
    variance: float
    """The variance that layouts add to that of the difference, beyond the noise of the measurements."""

    @property
    def p_value(self) -> float:
        """The probability of at least this difference, in either direction, if the patch changes nothing."""
        if not self.error:
            return float(not self.difference)
        return chance_of(abs(self.difference) / self.error, self.freedom)

    def least(self, error: float) -> float:
        """Return the smallest absolute difference that layouts explain with at most this probability."""
        return quantile(1 - error, self.freedom) * self.error

    def equivalent_variance(self, confidence: float) -> float:
        """Return the variance of a normal distribution as wide as layouts make the interval.

        :param confidence: the probability that the interval contains the difference.
        """
        normal = NormalDist().inv_cdf((1 + confidence) / 2)
        return self.variance * (quantile(confidence, self.freedom) / normal) ** 2


def compare_layouts(
    known: Levels, observations: Sequence[Observation], left_out: Collection[int]
) -> Layouts | None:
    """Compare the averages of two builds over their layouts.

    :param known: the levels of both builds.
    :param observations: those that the levels were computed from.
    :param left_out: positions of observations to ignore.
    :returns: the comparison; None if a build was measured in one layout.
    """
    measured: dict[int, defaultdict[int, list[float]]] = {PARENT: defaultdict(list), PATCH: defaultdict(list)}
    for build, y, position in zip(
        known.builds.tolist(), known.y.tolist(), known.positions.tolist(), strict=True
    ):
        if position not in left_out:
            measured[build][observations[position].variant].append(y)
    parent, patch = ([fmean(each) for each in measured[build].values()] for build in (PARENT, PATCH))
    if min(len(parent), len(patch)) < _FEWEST:
        return None
    freedom = len(parent) + len(patch) - 2
    between = ((len(parent) - 1) * variance(parent) + (len(patch) - 1) * variance(patch)) / freedom
    noise = _noise([each for build in measured.values() for each in build.values()])
    share = 1 / len(parent) + 1 / len(patch)
    return Layouts(
        difference=fmean(patch) - fmean(parent),
        error=math.sqrt(between * share),
        freedom=freedom,
        variance=max(between - noise, 0.0) * share,
    )


def _noise(layouts: Sequence[Sequence[float]]) -> float:
    """Return the variance of a layout's average that is noise; 0 if each layout was measured once."""
    repeated = [each for each in layouts if len(each) > 1]
    if not repeated:
        return 0.0
    within = math.fsum((len(each) - 1) * variance(each) for each in repeated)
    within /= sum(len(each) - 1 for each in repeated)
    return within * fmean(1 / len(each) for each in layouts)
