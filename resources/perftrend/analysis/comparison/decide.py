"""Two builds compared: what is known of their difference, and what that means.

The difference has a posterior distribution (see :mod:`.model`); its central interval decides:

* a regression or a progression, where the interval does not hold zero, and the difference is at least as
  probable to exceed the threshold as not; of K tests compared at once the probability beyond zero has to be
  √K times smaller;
* no difference, where the whole interval lies within the threshold on both sides;
* else undecided, which is no statement about the patch: it says how large a difference would have shown.
  So it is, too, where something was left out and a build has fewer than three observations left.

A prior decides how often the verdict is wrong when it is looked for after every round. Nine tenths of it say
that the difference is small, in units of the noise, as if ``HANDICAP`` of the planned rounds had been
measured already, without a difference: a few lucky rounds do not outvote that, all of the planned ones do.
One tenth lets large differences through: most of it those of some per cent, a little those of a half or more.

Source: Grossman, Parmar, Spiegelhalter and Freedman, A unified method for monitoring and analysing
controlled trials, 1994, for the handicap; Kruschke, Rejecting or accepting parameter values in Bayesian
estimation, 2018, for the rule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from perftrend import errors
from perftrend.analysis.comparison.mixture import Mixture
from perftrend.analysis.comparison.model import Model
from perftrend.analysis.comparison.observations import PARENT, PATCH, Observation, levels
from perftrend.analysis.comparison.outliers import fitted
from perftrend.analysis.comparison.power import estimated
from perftrend.analysis.comparison.priors import Noise, Sizes
from perftrend.model import Better

HANDICAP = 0.4
"""The share of the planned rounds that the prior weighs as much as."""
PLANNED_ROUNDS = 10
_WEIGHTS = (0.9, 0.08, 0.02)
"""Prior probabilities of a difference in units of the noise, of some per cent, and of any size."""
_LARGE_SCALES = (10.0, 100.0)
"""Deviations of the latter two, in units of 100 ln(value): 100 is a factor of 2.7."""
_HALF = 0.5
LEAST_LEFT = 3
"""So many observations of each build, where something was left out: of two nobody knows which one is off."""
POWER = 1.0364
"""Normal quantile of 0.85: with this probability the smallest difference would have shown."""


class Conclusion(StrEnum):
    """What a comparison says about the patch."""

    REGRESSION = "regression"
    PROGRESSION = "progression"
    NO_DIFFERENCE = "no difference"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Rule:
    """When a difference is one.

    :raises SettingsError: if a value has no meaning.
    """

    better: Better = Better.HIGHER
    threshold: float = 0.01
    confidence: float = 0.99
    tests: int = 1
    """How many are compared at once: the more, the surer a difference has to be."""

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
    def tail_shown(self) -> float:
        """The probability that a difference which is shown may have on the other side of zero.

        The root is enough: with the handicap m, false alarms of n rounds fall with the power 1 + m/n of it.
        """
        return self.tail / math.sqrt(self.tests)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is known of the difference between a patch and its parent.

    Differences are ratios to the parent: -0.03 is 3 % less. Where a sample is zero or negative they are
    ratios to the absolute median of the parent's samples. Where a build has no samples, nothing is known:
    NaN, an interval without ends, and ``smallest`` infinite.
    """

    outcome: Conclusion
    relative: float
    """The median of the posterior: as probably more as less."""
    low: float
    high: float
    """The difference lies between them with the confidence."""
    probability_worse: float
    """The probability that the patch is worse at all."""
    probability_better: float
    probability_matters: float
    """The probability that the patch is worse by more than the threshold."""
    smallest: float
    """The smallest difference that this measurement would have shown, in 85 of 100 cases; not negative."""
    outliers: tuple[int, ...]
    """Indices of the observations that lie far off and were left out."""
    parent: float
    """The average of the parent's samples, those that lie far off left out, in their unit."""
    patch: float
    rounds: float
    """The number of pairs that the observations are worth."""
    planned_rounds: int
    rule: Rule
    estimate: float
    """What the measurement alone says of the difference, without the prior."""
    error: float
    """The standard error of that, as a ratio."""


def compare(
    observations: Sequence[Observation],
    *,
    better: Better = Better.HIGHER,
    threshold: float = 0.01,
    confidence: float = 0.99,
    known_deviation: float | None = None,
    planned_rounds: int = PLANNED_ROUNDS,
    tests: int = 1,
) -> Comparison:
    """Compare two builds by repeated measurements of both.

    :param observations: of build 0, the parent, and build 1, the patch, best taken in turns: parent, patch,
        patch, parent, … so that drift cancels.
    :param threshold: the smallest difference that matters, as a ratio.
    :param confidence: what the interval holds, and how sure a verdict is.
    :param known_deviation: deviation between runs as the trace's own history knows it, in per cent.
    :param planned_rounds: rounds after which the verdict will be given at the latest. The verdict may be
        looked for after each of them.
    :param tests: how many are compared at once, this one included.
    :returns: the comparison; takes about three milliseconds for ten rounds.
    :raises SettingsError: if an argument has no meaning.
    """
    rule = Rule(better, threshold, confidence, tests)
    if planned_rounds < 1:
        raise errors.SettingsError(f"planned_rounds is {planned_rounds}; give a number from 1")
    strange = next((each.build for each in observations if each.build not in {PARENT, PATCH}), None)
    if strange is not None:
        raise errors.SettingsError(f"build {strange} cannot be compared; the parent is 0 and the patch is 1")
    known = levels(observations)
    if set(known.builds.tolist()) != {PARENT, PATCH}:
        return _nothing(observations, rule, planned_rounds)
    noise = Noise(known_deviation=known_deviation)
    handicap = math.sqrt(2 / (HANDICAP * planned_rounds))
    sizes = Sizes((handicap, *_LARGE_SCALES), _WEIGHTS, (True, False, False))
    step = known.builds == PATCH
    model, outliers = fitted(known, step[np.newaxis], noise=noise, sizes=sizes)
    if np.ptp(model.levels.builds) == 0:
        # All of a build lies far off: then that is what there is to compare.
        model, outliers = Model(known, noise, sizes), ()
    return _judged(observations, model, outliers, rule, planned_rounds)


def _judged(
    observations: Sequence[Observation], model: Model, outliers: tuple[int, ...], rule: Rule, planned: int
) -> Comparison:
    known = model.levels
    step = known.builds == PATCH
    posterior = model.size(step)
    measured = estimated(model, step)
    limits = known.step(-rule.threshold), known.step(rule.threshold)
    higher = rule.better is Better.HIGHER
    sign, worst = (-1.0, limits[0]) if higher else (1.0, limits[1])
    least = measured.least(lambda other: _is_shown(other, sign, worst, rule), sign=sign)
    low, median, high = (posterior.quantile(p) for p in (rule.tail, 0.5, 1 - rule.tail))
    below, above = posterior.below(0.0), posterior.above(0.0)
    kept = [(each.build, each.samples) for i, each in enumerate(observations) if i not in outliers]
    sizes = np.bincount(known.builds, minlength=2)
    is_torn = bool(outliers) and min(sizes) < LEAST_LEFT
    return Comparison(
        outcome=Conclusion.UNDECIDED if is_torn else _conclusion(posterior, limits, rule),
        relative=known.relative(median),
        low=known.relative(low),
        high=known.relative(high),
        probability_worse=below if higher else above,
        probability_better=above if higher else below,
        probability_matters=posterior.below(worst) if higher else posterior.above(worst),
        smallest=abs(known.relative(sign * (least + POWER * measured.error))),
        outliers=outliers,
        parent=_average(kept, PARENT),
        patch=_average(kept, PATCH),
        rounds=float(2 * sizes[PARENT] * sizes[PATCH] / sizes.sum()),
        planned_rounds=planned,
        rule=rule,
        estimate=known.relative(measured.size),
        error=measured.error / 100,
    )


def _conclusion(posterior: Mixture, limits: tuple[float, float], rule: Rule) -> Conclusion:
    lower, upper = limits
    down, up = Conclusion.REGRESSION, Conclusion.PROGRESSION
    if rule.better is Better.LOWER:
        down, up = up, down
    if _is_shown(posterior, -1.0, lower, rule):
        return down
    if _is_shown(posterior, 1.0, upper, rule):
        return up
    if posterior.below(lower) <= rule.tail and posterior.above(upper) <= rule.tail:
        return Conclusion.NO_DIFFERENCE
    return Conclusion.UNDECIDED


def _is_shown(posterior: Mixture, sign: float, limit: float, rule: Rule) -> bool:
    """Say whether the interval lies on one side of zero, and the median beyond the limit on that side."""
    if sign < 0:
        return posterior.above(0.0) <= rule.tail_shown and posterior.below(limit) >= _HALF
    return posterior.below(0.0) <= rule.tail_shown and posterior.above(limit) >= _HALF


def _average(kept: Sequence[tuple[int, tuple[float, ...]]], build: int) -> float:
    samples = [x for of, each in kept if of == build for x in each if math.isfinite(x)]
    return math.fsum(samples) / len(samples) if samples else math.nan


def _nothing(observations: Sequence[Observation], rule: Rule, planned: int) -> Comparison:
    """Say that a build was not measured."""
    kept = [(each.build, each.samples) for each in observations]
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
        parent=_average(kept, PARENT),
        patch=_average(kept, PATCH),
        rounds=0.0,
        planned_rounds=planned,
        rule=rule,
        estimate=nan,
        error=math.inf,
    )
