"""The two trials that bound the rate of a loss ratio, and how a new trial updates them.

A bound is a trial, so it has a duration and a loss. A lower bound is *valid* if it passes, an upper bound if
it fails. Invalid bounds are retained, because the width between the bounds determines the distance of the
next rate.

Source: "MDR Search", sections Non-initial phases (1.f) and Implementation Deviations (2 to 5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from perftrend.measure.search.parameters import Parameters, PhasePlan
from perftrend.measure.search.trials import explain_missing_lower_bound, passes
from perftrend.measurement import Interval, Trial


@dataclass(frozen=True, slots=True)
class Bounds:
    """The known bounds of the rate of one loss ratio."""

    loss_ratio: float
    lower: Trial
    upper: Trial
    limits: Parameters

    @property
    def lower_valid(self) -> bool:
        """Whether the lower bound passed."""
        return passes(self.lower, self.loss_ratio)

    @property
    def upper_valid(self) -> bool:
        """Whether the upper bound failed, or is at the maximum rate (deviation 2)."""
        return self.upper.rate_pps >= self.limits.maximum_pps or not passes(self.upper, self.loss_ratio)

    @property
    def below_minimum(self) -> bool:
        """Whether even the minimum rate lost too much: nothing is left to refine (deviation 3)."""
        return self.lower.rate_pps <= self.limits.minimum_pps and not self.lower_valid

    @property
    def log_width(self) -> float:
        """The logarithmic width."""
        return math.log(self.upper.rate_pps / self.lower.rate_pps)

    @property
    def middle_pps(self) -> float:
        """The rate of an internal search: the middle of 2 and 8 is 4 (deviation 1)."""
        return self.lower.rate_pps * math.sqrt(self.upper.rate_pps / self.lower.rate_pps)

    @property
    def interval(self) -> Interval:
        """The rates of the bounds, with the reason if one of them is not valid."""
        return Interval(self.lower.rate_pps, self.upper.rate_pps, self._invalid)

    @property
    def _invalid(self) -> str:
        limit = f"loss ratio {self.loss_ratio:g}"
        if self.below_minimum:
            return explain_missing_lower_bound(self.loss_ratio, self.lower.loss_ratio, self.lower.rate_pps)
        if not self.lower_valid:
            return f"the lower bound exceeds {limit}"
        if not self.upper_valid:
            return f"the upper bound does not exceed {limit}"
        return ""

    def below_pps(self, phase: PhasePlan) -> float:
        """Return the rate of an external search downwards."""
        return self.limits.shift(self.lower.rate_pps, -self._stride(phase))

    def above_pps(self, phase: PhasePlan) -> float:
        """Return the rate of an external search upwards."""
        return self.limits.shift(self.upper.rate_pps, self._stride(phase))

    def _stride(self, phase: PhasePlan) -> float:
        # Two widths, because each step doubles the interval. At least the width goal of the phase, because
        # the new interval spans the step (deviation 5).
        return max(2.0 * self.log_width, phase.log_width)

    def with_trial(self, trial: Trial) -> Bounds:
        """Return the bounds after one more trial, whichever loss ratio it was made for.

        ==============================  ====================================================
        the trial is                    result
        ==============================  ====================================================
        at a bound                      it replaces the bound
        below an invalid lower bound    it becomes the lower bound, the old one the upper bound
        below a valid lower bound       if it fails, it becomes the lower bound (deviation 4)
        between the bounds              if it fails, it becomes the upper bound;
                                        if it passes, the lower bound, unless that one fails
        above an invalid upper bound    it becomes the upper bound, the old one the lower bound,
                                        unless the lower bound fails
        above a valid upper bound       nothing changes, even if it passes (deviation 4)
        ==============================  ====================================================
        """
        rate = trial.rate_pps
        if rate == self.lower.rate_pps:
            return replace(self, lower=trial)
        if rate == self.upper.rate_pps:
            return replace(self, upper=trial)
        if rate < self.lower.rate_pps:
            return self._after_trial_below(trial)
        if rate < self.upper.rate_pps:
            return self._after_trial_inside(trial)
        if self.lower_valid and not self.upper_valid:
            return replace(self, lower=self.upper, upper=trial)
        return self

    def _after_trial_below(self, trial: Trial) -> Bounds:
        if not self.lower_valid:
            return replace(self, lower=trial, upper=self.lower)
        return self if passes(trial, self.loss_ratio) else replace(self, lower=trial)

    def _after_trial_inside(self, trial: Trial) -> Bounds:
        if not passes(trial, self.loss_ratio):
            return replace(self, upper=trial)
        # A pass above a failing lower bound contradicts it; the failure takes precedence.
        return replace(self, lower=trial) if self.lower_valid else self
