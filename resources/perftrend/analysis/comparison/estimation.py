r"""The estimation of a difference: far-off observations, the noise of any shape, the power, and layouts.

Far-off observations are found one after the other, and excluded. Two of them hide each other: together they
look like noise, and one of them is not improbable without the other. The search therefore continues for a
while past an observation that is only suspected, and excludes those that are most probable together: with pₖ
the probability that the k-th one is far off, given that those before it are, the number with the largest Σ
log(pₖ / (1 - pₖ)).

A machine with two speeds gives two sharp levels to each build. A normal model treats their distance as noise.
The fit of kernels has noise of any shape, estimated from the values of both builds: the density of a value is
a sum of kernels around the other values, those of the patch moved back by the difference Δ (see
:mod:`.paired_test`). It is large if Δ aligns the levels of both builds. The evidence is on the scale of
:class:`.Model`, so that both can be weighed by it. Δ has a grid whose steps are 8 % of it, up to a factor of
50,000. If each observation is a single sample, finer ones are around the Δ that align the most values. A
finer grid around the probable values gives the size.

The estimate of the size is that of the measurement alone, by generalised least squares: for each noise of the
grid aᵀPy / aᵀPa with variance 1 / aᵀPa, averaged over the posterior of the noise. To evaluate another
estimate, and thus to find the smallest one that decides, the observations of the patch are shifted as a
whole, which does not change what they show of the noise.

Builds may also differ only by the memory layout of their code and data. No order of measuring distinguishes
such a difference from that of the patch, however often both builds are measured. It shows if each build is
measured in several layouts (variants). With m the averages of the V layouts of each build, s² their variance
about the average of their build, pooled over both builds, and D the difference of these two averages,

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
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, variance

import numpy as np

from perftrend.analysis.comparison.distributions import (
    LEVEL_DEVIATION,
    STEPS_OF_COMMITS,
    FarOff,
    Mixture,
    NoiseGrid,
    Sizes,
    log_sum,
)
from perftrend.analysis.comparison.model import Model, Steps
from perftrend.analysis.comparison.observations import PARENT, PATCH, Floats, Levels, Observation
from perftrend.analysis.comparison.paired_test import likelihood
from perftrend.analysis.significance import chance_of, quantile

_HALVINGS = 12

MOST_EXCLUDED = 6
"""The maximum number of exclusions, which is also at most a quarter of all."""
PROBABLE = 0.6
"""Observations are excluded if their log odds together exceed those of this probability."""
SUSPECTED = 0.05
"""An observation that is far off with this probability may be hidden by another one."""
HOPELESS = -4.0
"""Log odds below which a set of observations is not enlarged."""
_CERTAIN = 1 - 1e-12

_SIZES: Floats = 0.25 * np.power(1.08, np.arange(110, dtype=np.float64))
_DIFFERENCES: Floats = np.concatenate([-_SIZES[::-1], [0.0], _SIZES])
_STEPS: Floats = np.gradient(_DIFFERENCES)
_MOST_ALIGNMENTS = 3
"""Two builds with two levels each can be aligned in three ways."""
_ALIGNED = 0.4
"""Differences of two values within this distance are alike."""
_AROUND: Floats = np.linspace(-0.3, 0.3, 7)
"""Fine grid around such a difference, in steps of the narrowest kernel."""
_FINE = 81
"""Points of the finer grid."""
_IMPROBABLE = 1e-4
"""The finer grid excludes tails of this probability on either side."""

_FEWEST_LAYOUTS = 2
"""Layouts of a build that are required to estimate how much it differs between them."""


def fit_without_outliers(
    levels: Levels,
    steps: Steps,
    *,
    noise: NoiseGrid,
    sizes: Sizes = STEPS_OF_COMMITS,
    far_off: FarOff | None = None,
    prior_none: float = -math.inf,
    prior_one: Floats | None = None,
    look_ahead: bool = True,
) -> tuple[Model, tuple[int, ...]]:
    """Fit the model without far-off observations.

    :param steps: the steps that are considered possible, shape (j, n).
    :param prior_none: logarithm of the prior probability of no step; the default rules it out.
    :param prior_one: of one at each position, shape (j,); None for equal probabilities.
    :param look_ahead: whether to search past an observation that is only suspected, which fits the model once
        more for each of them.
    :returns: the model of the rest, and the positions of the exclusions among the observations given to
        :func:`.levels`, in their order. Columns of ``steps`` belong to ``model.levels.positions``.
    """
    far_off = far_off or FarOff()
    prior = np.zeros(len(steps)) if prior_one is None else prior_one
    left_out: list[int] = []
    least = SUSPECTED if look_ahead else PROBABLE
    most = min(MOST_EXCLUDED, len(levels) // 4)
    best = model = Model(levels, noise, sizes, far_off)
    best_count, best_odds, odds = 0, 0.0, 0.0
    while len(left_out) < most:
        probable = model.far_off_given(steps, prior_none=prior_none, prior_one=prior)
        worst = int(np.argmax(probable))
        if probable[worst] < least or odds < HOPELESS:
            break
        odds += _log_odds(float(probable[worst]))
        left_out.append(int(levels.positions[worst]))
        levels, steps = levels.without([worst]), np.delete(steps, worst, axis=1)
        model = Model(levels, noise, sizes, far_off)
        if odds > best_odds + (0.0 if best_count else _log_odds(PROBABLE)):
            best, best_count, best_odds = model, len(left_out), odds
    return best, tuple(sorted(left_out[:best_count]))


@dataclass(frozen=True, slots=True, eq=False)
class KernelFit:
    """Values of two builds, and the posterior of their difference if the noise has any shape."""

    parent: tuple[float, ...]
    patch: tuple[float, ...]
    evidence: float
    """Logarithm, in nats."""
    differences: Floats
    """Δ, ascending, (d,)."""
    probabilities: Floats
    """Logarithm of the probability of the values and of each Δ, (d,)."""

    def size(self) -> Mixture:
        """Return the posterior of the difference, in 100 ln(value)."""
        coarse = Mixture.of(self.probabilities, self.differences, np.gradient(self.differences) ** 2 / 12)
        low, high = (coarse.quantile(level) for level in (_IMPROBABLE, 1 - _IMPROBABLE))
        fine = np.linspace(low, high, _FINE)
        step = float(fine[1] - fine[0])
        own = np.interp(fine, _DIFFERENCES, _STEPS)
        if step >= own.max():
            return coarse
        # The density is that of the coarse grid, where each point represents one step.
        weights = likelihood(self.parent, self.patch, fine) - np.log(own)
        return Mixture.of(weights, fine, np.full(_FINE, step**2 / 12))


def fit_kernels(levels: Levels) -> KernelFit:
    """Fit the noise to the values of two builds, whatever their difference is.

    :param levels: all levels of both builds, including far-off ones.
    """
    order = np.argsort(levels.at_h, kind="stable")
    y, builds = np.round(levels.y[order], 9), levels.builds[order]
    parent, patch = (tuple(y[builds == build].tolist()) for build in (PARENT, PATCH))
    aligned = _alignments(y[builds == PARENT], y[builds == PATCH]) if levels.single else ()
    differences = np.unique(np.concatenate([_DIFFERENCES, *aligned]))
    # All steps of the coarse grid are equally probable.
    shares = np.gradient(differences) / np.interp(differences, _DIFFERENCES, _STEPS) / _DIFFERENCES.size
    probabilities = likelihood(parent, patch, differences) + np.log(shares)
    level = -0.5 * math.log(2 * math.pi) - math.log(LEVEL_DEVIATION)
    return KernelFit(parent, patch, float(log_sum(probabilities)) + level, differences, probabilities)


def _alignments(parent: Floats, patch: Floats) -> Iterator[Floats]:
    """Yield fine grids of the Δ that align the most values of both builds.

    The coarse grid could miss a large Δ that aligns sharp levels. Normal noise explains these as well, unless
    each observation is a single sample.
    """
    pairs = np.sort((patch[:, np.newaxis] - parent).ravel())
    for _ in range(_MOST_ALIGNMENTS):
        if not pairs.size:
            return
        ends = np.searchsorted(pairs, pairs + _ALIGNED, side="right")
        first = int(np.argmax(ends - np.arange(pairs.size)))
        aligned = pairs[first : ends[first]]
        yield float(np.median(aligned)) + _AROUND
        pairs = np.delete(pairs, slice(first, int(ends[first])))


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """The size of a step by the measurement alone, in 100 ln(value)."""

    size: float
    error: float
    """Its standard error."""
    model: Model
    weight: Floats
    """aᵀPa, (g,)."""
    pull: Floats
    """aᵀPy, (g,)."""

    def posterior_given(self, size: float) -> Mixture:
        """Return the posterior of the step if its estimate had been another one."""
        shift = size - self.size
        pull = self.pull + shift * self.weight
        base = self.model.base - shift * (self.pull + 0.5 * shift * self.weight)
        variances = self.model.sizes.variances(self.model.of_one)
        d = self.weight[:, np.newaxis] + 1 / variances
        means = pull[:, np.newaxis] / d
        log_weights = (
            base[:, np.newaxis]
            + np.log(np.array(self.model.sizes.weights))
            + 0.5 * (pull[:, np.newaxis] * means - np.log(variances * d))
        )
        return Mixture.of(log_weights, means, 1 / d)

    def least(self, decides: Callable[[Mixture], bool], *, sign: float) -> float:
        """Return the smallest absolute size of an estimate that decides.

        :param decides: whether a step would be shown; if so, larger steps must be shown too.
        :param sign: of the steps to try, 1 or -1.
        """
        high = max(2 * self.error, 1e-6)
        while not decides(self.posterior_given(sign * high)) and high < 1e4:  # noqa: PLR2004 - beyond any ratio
            high *= 2
        low = 0.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if decides(self.posterior_given(sign * middle)):
                high = middle
            else:
                low = middle
        return high


def estimate_size(model: Model, step: Steps) -> Estimate:
    """Estimate the size of a step.

    :param step: True for the observations after it, shape (n,).
    """
    design = step.astype(np.float64)
    weight = np.einsum("gnm,n,m->g", model.precision, design, design)
    pull = model.pulled @ design
    # With a flat prior of the size, each noise is as probable as its residuals.
    log_weights = model.base + 0.5 * (pull**2 / weight - np.log(weight))
    weights = np.exp(log_weights - log_sum(log_weights))
    size = float(weights @ (pull / weight))
    error = math.sqrt(float(weights @ (1 / weight)))
    return Estimate(size, error, model, weight, pull)


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
    if min(len(parent), len(patch)) < _FEWEST_LAYOUTS:
        return None
    freedom = len(parent) + len(patch) - 2
    between = ((len(parent) - 1) * variance(parent) + (len(patch) - 1) * variance(patch)) / freedom
    noise = _layout_noise([each for build in measured.values() for each in build.values()])
    share = 1 / len(parent) + 1 / len(patch)
    return Layouts(
        difference=fmean(patch) - fmean(parent),
        error=math.sqrt(between * share),
        freedom=freedom,
        variance=max(between - noise, 0.0) * share,
    )


def _log_odds(probability: float) -> float:
    probability = min(probability, _CERTAIN)
    return math.log(probability / (1 - probability))


def _layout_noise(layouts: Sequence[Sequence[float]]) -> float:
    """Return the variance of a layout's average that is noise; 0 if each layout was measured once."""
    repeated = [each for each in layouts if len(each) > 1]
    if not repeated:
        return 0.0
    within = math.fsum((len(each) - 1) * variance(each) for each in repeated)
    within /= sum(len(each) - 1 for each in repeated)
    return within * fmean(1 / len(each) for each in layouts)
