"""The comparison of two builds: what is known of their difference, the verdict, and when to stop.

A difference is shown only if two criteria agree. The random order of measuring decides whether the builds
differ at all: by :mod:`.randomization`, whatever the noise is, and with one error for all looks and all
tests. A posterior distribution of the difference gives its direction and its size. It weighs two models of
the noise by their evidence: normal noise with drift and a few far-off runs (:mod:`.model`), and noise of
any shape, such as two speeds (:mod:`.estimation`). The outcome is

* a regression or a progression, if the order of measuring shows a difference, the central interval of the
  posterior excludes zero, and the difference is at least as probable to exceed the threshold as not; if
  each build was measured in several layouts, they must not explain it either (:mod:`.estimation`);
* no difference, if the whole interval is within the threshold on both sides;
* else undecided, which is not a statement about the patch: the result includes how large a difference would
  have been shown. The outcome is also undecided if observations were excluded and a build has fewer than
  three left.

Nine tenths of the prior of normal noise assume that the difference is small, in units of the noise, as if
``HANDICAP`` of the planned rounds had been measured already, without a difference. One tenth allows large
differences: most of it those of some per cent, a little those of a half or more.

The stopping rule is whether more rounds can change a verdict. A difference that is shown remains shown:
the error is divided among the looks (see :mod:`.randomization`). A difference that is not shown yet may
still be. With n rounds done, r to come, E the estimate so far, e its error, and a difference that is now
believed to be m ± d, the estimate after all N = n + r rounds will be

    N((n E + r m) / N, (r / N)² (d² + e² n / r)),

and it decides if it exceeds about z e √(n / N), z = Φ⁻¹(1 - tail) √(1 + handicap / N), where the tail is
half of the error of the last look. By then the half width h of the interval will be h √(n / N), and its
middle N(m, d² r / N): no difference, if all of it is within the threshold. If both together are
improbable, further rounds are useless: the comparison stops, and the patch is undecided.

Source: Grossman, Parmar, Spiegelhalter and Freedman, A unified method for monitoring and analysing
controlled trials, 1994, for the handicap; Kruschke, Rejecting or accepting parameter values in Bayesian
estimation, 2018, for the rule; Spiegelhalter, Freedman and Blackburn, Monitoring clinical trials:
conditional or predictive power?, 1986, for the stopping rule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist

import numpy as np

from perftrend import errors
from perftrend.analysis.comparison.distributions import Mixture, NoiseGrid, Sizes
from perftrend.analysis.comparison.estimation import (
    Estimate,
    Layouts,
    compare_layouts,
    estimate_size,
    fit_kernels,
    fit_without_outliers,
)
from perftrend.analysis.comparison.model import Model
from perftrend.analysis.comparison.observations import PARENT, PATCH, Levels, Observation, levels
from perftrend.analysis.comparison.randomization import Design, RandomizationTest, randomization_test
from perftrend.model import Better

CHANCE = 0.05
"""The probability of a verdict up to which further rounds are not worthwhile."""
_NORMAL = NormalDist()

HANDICAP = 0.1
"""The prior weighs as much as this fraction of the planned rounds."""
ANY_SHAPE = 0.02
"""The prior probability of noise of any shape instead of normal noise."""
_WEIGHTS = (0.9, 0.08, 0.02)
"""Prior probabilities of a difference in units of the noise, of some per cent, and of any size."""
_LARGE_SCALES = (10.0, 100.0)
"""Deviations of the latter two, in units of 100 ln(value): 100 is a factor of 2.7."""
DESIGN = Design()
_HALF = 0.5
LEAST_LEFT = 3
"""Observations of each build required after exclusions: of two it is not known which one is off."""
_LARGEST = 700.0
"""Logarithm of the largest odds."""
POWER = 1.0364
"""Normal quantile of 0.85: the smallest difference would have been shown with this probability."""


def is_settled(comparison: Comparison, rounds_left: int, *, chance: float = CHANCE) -> bool:
    """Return whether the remaining rounds cannot, or hardly, change the verdict.

    :param comparison: the result after the newest round.
    :param rounds_left: how many rounds may still follow.
    :param chance: the highest probability of a verdict at which to stop; 0 to stop only if none is possible.
    """
    return decision_probability(comparison, rounds_left) <= chance


def decision_probability(comparison: Comparison, rounds_left: int) -> float:
    """Return the probability that the remaining rounds decide the verdict; 0 if it is already decided."""
    if comparison.outcome is not Conclusion.UNDECIDED or rounds_left <= 0:
        return 0.0
    if not comparison.rounds:
        return 1.0
    return detection_probability(comparison, rounds_left) + _equivalence_probability(comparison, rounds_left)


def detection_probability(comparison: Comparison, rounds_left: int) -> float:
    """Return the probability that a difference is shown, in either direction, after all rounds."""
    if not comparison.can_show:
        return 0.0
    done, left = comparison.rounds, float(rounds_left)
    total = done + left
    mean = (done * comparison.estimate + left * comparison.relative) / total
    spread = left / total * math.sqrt(_deviation(comparison) ** 2 + comparison.error**2 * done / left)
    needed = _critical_estimate(comparison, total)
    future = NormalDist(mean, spread)
    return future.cdf(-needed) + 1 - future.cdf(needed)


def _critical_estimate(comparison: Comparison, total: float) -> float:
    """Return the estimate that decides after this number of rounds."""
    score = _NORMAL.inv_cdf(1 - comparison.tail_decisive) * math.sqrt(
        1 + HANDICAP * comparison.design.maximum_rounds / total
    )
    error = comparison.error * math.sqrt(comparison.rounds / total)
    return max(score * error, comparison.rule.threshold, comparison.layout_limit)


def _equivalence_probability(comparison: Comparison, rounds_left: int) -> float:
    """Return the probability that the whole interval will be within the threshold on both sides."""
    share = comparison.rounds / (comparison.rounds + rounds_left)
    half = (comparison.high - comparison.low) / 2 * math.sqrt(share)
    room = comparison.rule.threshold - half
    if room <= 0:
        return 0.0
    future = NormalDist(comparison.relative, _deviation(comparison) * math.sqrt(1 - share))
    return future.cdf(room) - future.cdf(-room)


def _deviation(comparison: Comparison) -> float:
    """Return the standard deviation of the difference about its median."""
    return (comparison.high - comparison.low) / 2 / _NORMAL.inv_cdf(1 - comparison.rule.tail)


class Conclusion(StrEnum):
    """The verdict on a patch."""

    REGRESSION = "regression"
    PROGRESSION = "progression"
    NO_DIFFERENCE = "no difference"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class DecisionRule:
    """The criteria for a difference.

    :raises SettingsError: if a value is invalid.
    """

    better: Better = Better.HIGHER
    threshold: float = 0.01
    confidence: float = 0.99
    tests: int = 1
    """The number of tests that are compared at once, which share the error."""

    def __post_init__(self) -> None:
        if not 0 <= self.threshold < 1:
            raise errors.SettingsError(f"threshold is {self.threshold}; give a ratio from 0 to below 1")
        if not 0.5 < self.confidence < 1:  # noqa: PLR2004 - below, a coin does better
            raise errors.SettingsError(
                f"confidence is {self.confidence}; give a probability above 0.5, below 1"
            )
        if self.tests < 1:
            raise errors.SettingsError(f"tests is {self.tests}; give a number from 1")

    @property
    def tail(self) -> float:
        """The probability on either side of the interval."""
        return (1 - self.confidence) / 2

    @property
    def error(self) -> float:
        """The probability that a test is shown to differ although it does not."""
        return (1 - self.confidence) / self.tests


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of comparing a patch with its parent.

    Differences are ratios to the parent: -0.03 is 3 % less. If a sample is zero or negative, they are
    ratios to the absolute median of the parent's samples. If a build has no samples, nothing is known: the
    values are NaN, the interval has no ends, and ``smallest`` is infinite.
    """

    outcome: Conclusion
    relative: float
    """The median of the posterior."""
    low: float
    high: float
    """The difference is between ``low`` and ``high`` with the confidence."""
    probability_worse: float
    """The probability that the patch is worse by any amount."""
    probability_better: float
    probability_matters: float
    """The probability that the patch is worse by more than the threshold."""
    smallest: float
    """The smallest difference that this measurement would have shown in 85 of 100 cases; not negative.
    Infinite if there are too few rounds to show any."""
    outliers: tuple[int, ...]
    """Indices of the observations that are far off and were excluded."""
    parent: float
    """The average of the parent's samples, without far-off observations, in their unit."""
    patch: float
    rounds: float
    """The number of pairs that the observations are equivalent to."""
    design: Design
    rule: DecisionRule
    estimate: float
    """The difference by the measurement alone, without the prior."""
    error: float
    """The standard error of ``estimate``, as a ratio."""
    evidence: RandomizationTest
    """The evidence for a difference by the order of measuring alone."""
    any_shape: float
    """The probability that the noise is not normal."""
    layouts: Layouts | None = None
    """The difference that layouts cause; None if one of the builds was measured in one layout."""

    @property
    def layout_limit(self) -> float:
        """The smallest estimate that layouts do not explain, as a ratio; 0 with one layout."""
        return self.layouts.least(_layout_error(self.rule, self.design)) / 100 if self.layouts else 0.0

    @property
    def is_explained_by_layouts(self) -> bool:
        """Whether the builds differ, but by no more than each of them differs between layouts."""
        return self.evidence.is_shown and not _beyond_layouts(self.layouts, self.rule, self.design)

    @property
    def is_any_shape(self) -> bool:
        """Whether the noise is probably not normal: similar values are then compared instead of averages."""
        return self.any_shape > _HALF

    @property
    def can_show(self) -> bool:
        """Whether the planned rounds suffice to show any difference."""
        return self.design.limit_from(0, self.rule.error) > 0

    @property
    def tail_decisive(self) -> float:
        """The probability on the other side of zero allowed for a difference shown after all rounds."""
        return _tail(self.rule, self.design.limit_from(self.design.maximum_rounds, self.rule.error))


def compare(
    observations: Sequence[Observation],
    *,
    better: Better = Better.HIGHER,
    threshold: float = 0.01,
    confidence: float = 0.99,
    known_deviation: float | None = None,
    design: Design = DESIGN,
    tests: int = 1,
) -> Comparison:
    """Compare two builds by repeated measurements of both.

    :param observations: of build 0, the parent, and build 1, the patch, measured in the order that the design
        has drawn. Include those that failed, without samples.
    :param threshold: the smallest difference that matters, as a ratio.
    :param confidence: the probability that the interval contains the difference, and that a verdict is right.
    :param known_deviation: deviation between runs by the history of the trace, in per cent.
    :param design: of the order of measuring. The verdict may be evaluated after each of its blocks.
    :param tests: number of tests that are compared at once, including this one.
    :returns: the comparison; takes about 20 milliseconds for ten rounds.
    :raises SettingsError: if an argument is invalid.
    """
    rule = DecisionRule(better, threshold, confidence, tests)
    strange = next((each.build for each in observations if each.build not in {PARENT, PATCH}), None)
    if strange is not None:
        raise errors.SettingsError(f"build {strange} cannot be compared; the parent is 0 and the patch is 1")
    known = levels(observations)
    if set(known.builds.tolist()) != {PARENT, PATCH}:
        return _empty_comparison(observations, rule, design)
    noise = NoiseGrid(known_deviation=known_deviation)
    handicap = math.sqrt(2 / (HANDICAP * design.maximum_rounds))
    sizes = Sizes((handicap, *_LARGE_SCALES), _WEIGHTS, (True, False, False))
    step = known.builds == PATCH
    model, outliers = fit_without_outliers(known, step[np.newaxis], noise=noise, sizes=sizes)
    if np.ptp(model.levels.builds) == 0:
        # All observations of a build are far off: compare them nevertheless.
        model, outliers = Model(known, noise, sizes), ()
    fit = _weigh_models(known, model, outliers)
    evidence = randomization_test(*_in_time(observations, known), design, rule.error)
    layouts = compare_layouts(known, observations, fit.outliers)
    return _judge(observations, known, fit, evidence, layouts, rule=rule, design=design)


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    """The difference and the noise, by both models."""

    posterior: Mixture
    measured: DifferenceEstimate
    outliers: tuple[int, ...]
    any_shape: float


@dataclass(frozen=True, slots=True, eq=False)
class DifferenceEstimate:
    """The difference by the measurement alone, in 100 ln(value)."""

    size: float
    error: float
    model: Estimate | None
    """Of normal noise; None if the noise has another shape."""


def _weigh_models(known: Levels, model: Model, outliers: tuple[int, ...]) -> _Fit:
    """Weigh normal noise and noise of any shape by how well they explain the measurements."""
    step = model.levels.builds == PATCH
    kernels = fit_kernels(known)
    far_off = known.y[np.isin(known.positions, outliers)] - np.median(model.levels.y)
    normal = float(model.one(step[np.newaxis])[0]) + float(model.far_off.log_density(far_off).sum())
    odds = math.log(ANY_SHAPE / (1 - ANY_SHAPE)) + kernels.evidence - normal
    any_shape = 1 / (1 + math.exp(-min(max(odds, -_LARGEST), _LARGEST)))
    size = kernels.size()
    posterior = Mixture.combine([(1 - any_shape, model.size(step)), (any_shape, size)])
    if any_shape > _HALF:
        return _Fit(posterior, _central(size), (), any_shape)
    estimate = estimate_size(model, step)
    return _Fit(posterior, DifferenceEstimate(estimate.size, estimate.error, estimate), outliers, any_shape)


def _central(size: Mixture) -> DifferenceEstimate:
    low, median, high = (size.quantile(NormalDist().cdf(score)) for score in (-1, 0, 1))
    return DifferenceEstimate(median, (high - low) / 2, None)


def _in_time(observations: Sequence[Observation], known: Levels) -> tuple[list[float], list[int]]:
    """Return the level, NaN without one, and the build of all observations in the order of time."""
    # Rounded, and not relative to the changing median, so that the cache serves the results of earlier looks.
    y = np.round(known.y + known.middle, 9)
    level = dict(zip(known.positions.tolist(), y.tolist(), strict=True))
    order = sorted(range(len(observations)), key=lambda position: observations[position].at_h)
    return [level.get(each, math.nan) for each in order], [observations[each].build for each in order]


def _judge(
    observations: Sequence[Observation],
    known: Levels,
    fit: _Fit,
    evidence: RandomizationTest,
    layouts: Layouts | None,
    *,
    rule: DecisionRule,
    design: Design,
) -> Comparison:
    added = layouts.equivalent_variance(rule.confidence) if layouts else 0.0
    posterior, measured = fit.posterior.widen(added) if added else fit.posterior, fit.measured
    limits = known.step(-rule.threshold), known.step(rule.threshold)
    higher = rule.better is Better.HIGHER
    sign, worst = (-1.0, limits[0]) if higher else (1.0, limits[1])
    limit = design.limit_from(len(observations) / 2, rule.error)
    least = _least(measured, sign, worst, _tail(rule, limit))
    if layouts:
        least = max(least, layouts.least(_layout_error(rule, design)))
    error = math.sqrt(measured.error**2 + added)
    is_shown = evidence.is_shown and _beyond_layouts(layouts, rule, design)
    low, median, high = (posterior.quantile(p) for p in (rule.tail, 0.5, 1 - rule.tail))
    below, above = posterior.below(0.0), posterior.above(0.0)
    measurements = [
        (each.build, each.samples) for i, each in enumerate(observations) if i not in fit.outliers
    ]
    sizes = np.bincount(known.builds[~np.isin(known.positions, fit.outliers)], minlength=2)
    is_torn = bool(fit.outliers) and min(sizes) < LEAST_LEFT
    return Comparison(
        outcome=Conclusion.UNDECIDED if is_torn else _conclusion(posterior, limits, rule, is_shown=is_shown),
        relative=known.relative(median),
        low=known.relative(low),
        high=known.relative(high),
        probability_worse=below if higher else above,
        probability_better=above if higher else below,
        probability_matters=posterior.below(worst) if higher else posterior.above(worst),
        smallest=abs(known.relative(sign * (least + POWER * error))) if limit else math.inf,
        outliers=fit.outliers,
        parent=_average(measurements, PARENT),
        patch=_average(measurements, PATCH),
        rounds=float(2 * sizes[PARENT] * sizes[PATCH] / sizes.sum()),
        design=design,
        rule=rule,
        estimate=known.relative(measured.size),
        error=error / 100,
        evidence=evidence,
        any_shape=fit.any_shape,
        layouts=layouts,
    )


def _least(measured: DifferenceEstimate, sign: float, worst: float, tail: float) -> float:
    """Return the absolute value of the smallest estimate that decides."""
    if measured.model is None:
        return max(NormalDist().inv_cdf(1 - tail) * measured.error, abs(worst))
    return measured.model.least(lambda other: _is_beyond(other, sign, worst, tail), sign=sign)


def _conclusion(
    posterior: Mixture, limits: tuple[float, float], rule: DecisionRule, *, is_shown: bool
) -> Conclusion:
    lower, upper = limits
    down, up = Conclusion.REGRESSION, Conclusion.PROGRESSION
    if rule.better is Better.LOWER:
        down, up = up, down
    if is_shown and _is_beyond(posterior, -1.0, lower, rule.tail):
        return down
    if is_shown and _is_beyond(posterior, 1.0, upper, rule.tail):
        return up
    if posterior.below(lower) <= rule.tail and posterior.above(upper) <= rule.tail:
        return Conclusion.NO_DIFFERENCE
    return Conclusion.UNDECIDED


def _is_beyond(posterior: Mixture, sign: float, limit: float, tail: float) -> bool:
    """Return whether the interval is on one side of zero, and the median beyond the limit on that side."""
    if sign < 0:
        return posterior.above(0.0) <= tail and posterior.below(limit) >= _HALF
    return posterior.below(0.0) <= tail and posterior.above(limit) >= _HALF


def _beyond_layouts(layouts: Layouts | None, rule: DecisionRule, design: Design) -> bool:
    return layouts is None or layouts.p_value <= _layout_error(rule, design)


def _layout_error(rule: DecisionRule, design: Design) -> float:
    """Return the probability with which layouts may be mistaken for a difference at one look."""
    looks = sum(limit > 0 for limit in design.limits(rule.error).values())
    return rule.error / max(looks, 1)


def _tail(rule: DecisionRule, limit: float) -> float:
    """Return the probability beyond zero allowed for a difference shown by a randomization test."""
    return min(rule.tail, (limit or rule.error) / 2)


def _average(measurements: Sequence[tuple[int, tuple[float, ...]]], build: int) -> float:
    samples = [x for of, each in measurements if of == build for x in each if math.isfinite(x)]
    return math.fsum(samples) / len(samples) if samples else math.nan


def _empty_comparison(observations: Sequence[Observation], rule: DecisionRule, design: Design) -> Comparison:
    """Return the comparison of builds one of which was not measured."""
    measurements = [(each.build, each.samples) for each in observations]
    nan = math.nan
    return Comparison(
        outcome=Conclusion.UNDECIDED,
        relative=nan,
        low=-math.inf,
        high=math.inf,
        probability_worse=nan,
        probability_better=nan,
        probability_matters=nan,
        smallest=math.inf,
        outliers=(),
        parent=_average(measurements, PARENT),
        patch=_average(measurements, PATCH),
        rounds=0.0,
        design=design,
        rule=rule,
        estimate=nan,
        error=math.inf,
        evidence=RandomizationTest(1.0, 0.0),
        any_shape=0.0,
    )
