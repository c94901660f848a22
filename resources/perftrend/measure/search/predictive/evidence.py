"""Evidence from the trials of a search: proofs from long trials, suggestions from short trials.

A trial of the final duration proves that its rate passes or fails, and only such rates bound a result.
Shorter trials suggest rates to measure, and are used until a trial of the final duration contradicts them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from perftrend.measure.search.parameters import Parameters
from perftrend.measure.search.trials import has_ended_early, lost, passes
from perftrend.measurement import Interval, Trial

FEWEST_LOST = 5
"""Fewer lost frames provide little information about the loss ratio."""

_ROUNDING = 1e-9

_LUCK = 2.0
"""A loss of more than this multiple of that at a higher rate indicates that frames are lost by chance."""

_UNLIKELY = 2.0
"""Minus the log of the largest probability that is not attributed to chance."""

_POOLED = 3
_UNCERTAINTY = 2.0 * math.sqrt(2.0 / _POOLED)
"""Twice the deviation of ln of the ratio of two pooled losses, if each trial counts as one event."""

_APART, _FAR_APART = 0.03, 0.5
"""Least distance, in ln of the rate, of trials that are compared: of those that counted lost frames, and of
those that ended at the first one."""

_STEEPEST_RISE = 0.5
_OVERLOADED = 0.1
_FLATTEST = 4.0
"""A loss that falls with a smaller power of the rate than this does not vanish at lower rates."""


class RateBounds(NamedTuple):
    """The highest passing rate below the lowest failing rate, and the latter; None for an unknown bound."""

    lower: float | None
    upper: float | None


@dataclass(frozen=True, slots=True)
class _TrialAttempt:
    """A trial, and the ``fail_above`` that it was made with."""

    trial: Trial
    fail_above: float

    @property
    def is_cut(self) -> bool:
        """Whether the trial was ended because it was certain to lose more than ``fail_above``."""
        return has_ended_early(self.trial) and not passes(self.trial, self.fail_above)

    def passes(self, loss_ratio: float) -> bool | None:
        """Return whether it passed; None if it was ended before that was decided."""
        if not self.is_cut:
            return passes(self.trial, loss_ratio)
        intended = max(self.trial.sent, self.trial.rate_pps * self.trial.duration_s)
        failed = loss_ratio <= self.fail_above or lost(self.trial) > loss_ratio * intended
        return False if failed else None


class TrialEvidence:
    """The trials of a search, and the conclusions from them for each loss ratio."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._short: list[Trial] = []
        self._full: dict[float, list[_TrialAttempt]] = {}
        self.ends_early: bool | None = None
        """Whether the generator ends trials that are certain to fail; None while that is not known."""

    def add(self, trial: Trial, fail_above: float) -> None:
        """Add a trial that was made with this ``fail_above``."""
        made = _TrialAttempt(trial, fail_above)
        if trial.duration_s >= self._parameters.final_duration_s:
            self._full.setdefault(trial.rate_pps, []).append(made)
        else:
            # Only the latest short trial at a rate counts.
            self._short = [other for other in self._short if other.rate_pps != trial.rate_pps]
            self._short.append(trial)
        if made.is_cut:
            self.ends_early = True
        elif trial.loss_ratio > 2.0 * fail_above and not self.ends_early:
            self.ends_early = False

    def passes(self, rate_pps: float, loss_ratio: float) -> bool | None:
        """Return whether a rate is proven to pass or to fail; None while that is not decided.

        ``trials_per_bound`` trials decide, of which the fraction ``exceed_ratio`` may fail. Trials that
        cannot change the decision are not needed.
        """
        verdicts = [made.passes(loss_ratio) for made in self._full.get(rate_pps, ())]
        if verdicts.count(False) > self._parameters.tolerated_failures:
            return False
        return True if verdicts.count(True) >= self._parameters.needed_passes else None

    def proven(self, loss_ratio: float) -> RateBounds:
        """Return the rates that bound the result.

        A failing rate takes precedence over a passing rate above it: the conservative updates of the MDR
        search.
        """
        return _bounds((rate, self.passes(rate, loss_ratio)) for rate in self._full)

    def is_found(self, loss_ratio: float) -> bool:
        """Return whether the proven bounds are close enough to each other, or at a limit of the rates."""
        lower, upper = self.proven(loss_ratio)
        limits = self._parameters
        if lower == limits.maximum_pps or (upper is not None and upper <= limits.minimum_pps):
            return True
        if lower is None or upper is None:
            return False
        return Interval(lower, upper).relative_width <= limits.relative_width * (1.0 + _ROUNDING)

    def suggest_bounds(self, loss_ratio: float, *, short: bool = True) -> RateBounds:
        """Return the bounds of the loss ratio, assuming that short trials are right.

        :param short: whether short trials are used at all.
        """
        lower, upper = self.proven(loss_ratio)
        believed = [
            (trial.rate_pps, passes(trial, loss_ratio))
            for trial in self._consistent_short_trials(loss_ratio, short)
        ]
        proven = [(rate, passed) for rate, passed in ((lower, True), (upper, False)) if rate is not None]
        return _bounds([*believed, *proven])

    def consistent_trials(self, loss_ratio: float, *, short: bool = True) -> list[Trial]:
        """Return all trials except the short ones that a proven bound contradicts."""
        full = [made.trial for trials in self._full.values() for made in trials]
        return self._consistent_short_trials(loss_ratio, short) + full

    def contradicts_short(self, rate_pps: float, loss_ratio: float) -> bool:
        """Return whether the decision on a rate contradicts a short trial.

        A pass contradicts short trials that failed there or below, a failure those that passed there or
        above.
        """
        passed = self.passes(rate_pps, loss_ratio)
        return passed is not None and any(
            passes(trial, loss_ratio) is not passed
            and (trial.rate_pps <= rate_pps if passed else trial.rate_pps >= rate_pps)
            for trial in self._short
        )

    def casts_doubt(self, trial: Trial, loss_ratio: float) -> bool:
        """Return whether a trial lost clearly more than this ratio, below a rate proven to pass it."""
        lower = self.proven(loss_ratio).lower
        if lower is None or trial.rate_pps >= lower or self.passes(trial.rate_pps, loss_ratio) is not None:
            return False
        return _exceeds(trial, loss_ratio)

    def is_disturbed(self, trial: Trial) -> bool:
        """Return whether a trial was ended by far more loss than at the next higher rate."""
        others = [*self._short, *(made.trial for trials in self._full.values() for made in trials)]
        above = [other for other in others if other.rate_pps > trial.rate_pps]
        if not above or not has_ended_early(trial):
            return False
        next_higher = min(above, key=lambda other: other.rate_pps)
        return _exceeds(trial, _LUCK * next_higher.loss_ratio)

    def rate_to_confirm(self, loss_ratio: float) -> float | None:
        """Return the lower bound if its only pass may be luck; None if not, or if one was confirmed before.

        If loss consists of rare events, a search that goes down until a trial passes ends too high. This is
        assumed if a trial with a loss too small for a short trial to show lost far more than one at the next
        higher rate.
        """
        lower = self.proven(loss_ratio).lower
        if self._parameters.trials_per_bound > 1 or any(len(made) > 1 for made in self._full.values()):
            return None
        rare = [
            loss
            for rate in sorted(self._full)
            if self.passes(rate, loss_ratio) is False
            and (loss := min(self.losses_at(rate))) * rate * self._parameters.initial_duration_s < FEWEST_LOST
        ]
        is_luck = any(loss > _LUCK * higher for loss, higher in pairwise(rare))
        return lower if is_luck else None

    def losses_at(self, rate_pps: float) -> Sequence[float]:
        """Return the loss ratios of the trials of the final duration at a rate."""
        return [made.trial.loss_ratio for made in self._full.get(rate_pps, ())]

    def loss_floor(self, loss_ratio: float) -> float | None:
        """Return the loss ratio common to all rates; None if lower rates lose less or if it is not known.

        The three trials at the lowest rates that lost frames are compared with three trials some distance
        above them. Trials count as events, not frames, because frames are often lost in bursts. The loss is a
        floor if it falls with less than the fourth power of the rate, including the uncertainty, and does not
        rise instead. Near its knee, the loss of a device falls with the tenth power or more.
        """
        trials = sorted(self.consistent_trials(loss_ratio), key=lambda trial: trial.rate_pps)
        low = _Pool.of(trials)
        if low is None or low.loss_ratio <= loss_ratio:
            return None
        # A trial that ended with its first lost frame shows the time of the loss rather than its ratio.
        apart = _APART if low.lost >= _POOLED * FEWEST_LOST else _FAR_APART
        high = _Pool.of(trial for trial in trials if trial.rate_pps > low.highest_pps * math.exp(apart))
        if high is None or high.loss_ratio > _OVERLOADED:
            return None
        silent = (trial for trial in trials if trial.rate_pps < low.rate_pps and lost(trial) <= 0)
        if any(low.loss_ratio * trial.sent >= FEWEST_LOST for trial in silent):
            return None
        fall, span = math.log(high.loss_ratio / low.loss_ratio), math.log(high.rate_pps / low.rate_pps)
        # A device that pauses loses its first frame after the same time at any rate, not by a ratio.
        is_flat = -_STEEPEST_RISE * span < fall < _FLATTEST * span - _UNCERTAINTY
        return low.loss_ratio if is_flat else None

    def _consistent_short_trials(self, loss_ratio: float, short: bool) -> list[Trial]:
        lower, upper = self.proven(loss_ratio)
        lowest = -math.inf if lower is None else lower
        highest = math.inf if upper is None else upper
        return [
            trial
            for trial in self._short
            if short and (trial.rate_pps < highest if passes(trial, loss_ratio) else trial.rate_pps > lowest)
        ]


class _Pool(NamedTuple):
    """Trials that lost frames at neighbouring rates."""

    rate_pps: float
    """Their geometric mean."""
    highest_pps: float
    lost: int
    """Frames lost in all these trials."""
    loss_ratio: float

    @classmethod
    def of(cls, trials: Iterable[Trial]) -> _Pool | None:
        """Pool the first of these trials that lost frames; None if too few did."""
        pooled = [trial for trial in trials if lost(trial) > 0][:_POOLED]
        if len(pooled) < _POOLED:
            return None
        frames = sum(map(lost, pooled))
        return cls(
            math.exp(math.fsum(math.log(trial.rate_pps) for trial in pooled) / _POOLED),
            pooled[-1].rate_pps,
            frames,
            frames / sum(trial.sent for trial in pooled),
        )


def _exceeds(trial: Trial, loss_ratio: float) -> bool:
    """Return whether a trial lost more than this ratio, and that is not attributed to chance."""
    count, expected = lost(trial), loss_ratio * trial.sent
    if count <= expected:
        return False
    # Chernoff's bound of the probability that this number of frames or more is lost.
    return expected <= 0.0 or count * math.log(count / expected) - (count - expected) > _UNLIKELY


def _bounds(verdicts: Iterable[tuple[float, bool | None]]) -> RateBounds:
    known = list(verdicts)
    upper = min((rate for rate, passed in known if passed is False), default=None)
    passing = (rate for rate, passed in known if passed and (upper is None or rate < upper))
    return RateBounds(max(passing, default=None), upper)
