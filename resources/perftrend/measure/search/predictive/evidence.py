"""What the trials of a search prove, and what they merely suggest.

A trial of the final duration proves that its rate passes or fails, and only such rates bound a
result. Shorter trials suggest where to look, and are believed until a trial of the final duration
contradicts them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from perftrend.measure.search.parameters import Parameters
from perftrend.measure.search.trials import ended_early, lost, passes
from perftrend.model import Interval, Trial

FEWEST_LOST = 5
"""Fewer lost frames say little about the loss ratio."""

_ROUNDING = 1e-9

_LUCK = 2.0
"""A loss so many times that of a higher rate shows that it is chance when frames are lost."""

_UNLIKELY = 2.0
"""Minus the log of the greatest probability that is not taken for chance."""

_POOLED = 3
_UNCERTAINTY = 2.0 * math.sqrt(2.0 / _POOLED)
"""Of ln of the ratio of two losses, each from so many trials: twice its deviation, if each counts as one."""

_APART, _FAR_APART = 0.03, 0.5
"""Trials are compared so far apart (in ln of the rate): those that counted lost frames, and those that
ended at the first."""

_STEEPEST_RISE = 0.5
_OVERLOADED = 0.1
_FLATTEST = 4.0
"""A loss that falls with less than this power of the rate does not go away."""


class Bounds(NamedTuple):
    """The highest rate that passes below the lowest that fails, and that one; None where there is none."""

    lower: float | None
    upper: float | None


@dataclass(frozen=True, slots=True)
class _Made:
    """A trial, and what it was made for."""

    trial: Trial
    fail_above: float

    @property
    def is_cut(self) -> bool:
        """Whether the trial was ended because it was certain to lose more than ``fail_above``."""
        return ended_early(self.trial) and not passes(self.trial, self.fail_above)

    def passed(self, loss_ratio: float) -> bool | None:
        """Tell whether it passed; None if it was ended before that was known."""
        if not self.is_cut:
            return passes(self.trial, loss_ratio)
        intended = max(self.trial.sent, self.trial.rate_pps * self.trial.duration_s)
        failed = loss_ratio <= self.fail_above or lost(self.trial) > loss_ratio * intended
        return False if failed else None


class Evidence:
    """The trials of a search, and what they say about each loss ratio."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._short: list[Trial] = []
        self._full: dict[float, list[_Made]] = {}
        self.ends_early: bool | None = None
        """Whether the generator ends trials that are certain to fail; None while that is not known."""

    def add(self, trial: Trial, fail_above: float) -> None:
        """Take in a trial that was made with this ``fail_above``."""
        made = _Made(trial, fail_above)
        if trial.duration_s >= self._parameters.final_duration_s:
            self._full.setdefault(trial.rate_pps, []).append(made)
        else:
            # The latest one at a rate counts.
            self._short = [other for other in self._short if other.rate_pps != trial.rate_pps]
            self._short.append(trial)
        if made.is_cut:
            self.ends_early = True
        elif trial.loss_ratio > 2.0 * fail_above and not self.ends_early:
            self.ends_early = False

    def passes(self, rate_pps: float, loss_ratio: float) -> bool | None:
        """Tell what is proven of a rate; None while that is not decided.

        ``trials_per_bound`` trials decide, of which the share ``exceed_ratio`` may fail. They are
        not all needed where the others cannot change the decision.
        """
        verdicts = [made.passed(loss_ratio) for made in self._full.get(rate_pps, ())]
        if verdicts.count(False) > self._parameters.tolerated_failures:
            return False
        return True if verdicts.count(True) >= self._parameters.needed_passes else None

    def proven(self, loss_ratio: float) -> Bounds:
        """Return the rates that bound the result.

        A failing rate is believed before a passing one above it: the document's conservative
        updates.
        """
        return _bounds((rate, self.passes(rate, loss_ratio)) for rate in self._full)

    def is_found(self, loss_ratio: float) -> bool:
        """Tell whether the proven bounds are near enough to each other, or at a limit of the rates."""
        lower, upper = self.proven(loss_ratio)
        limits = self._parameters
        if lower == limits.maximum_pps or (upper is not None and upper <= limits.minimum_pps):
            return True
        if lower is None or upper is None:
            return False
        return Interval(lower, upper).relative_width <= limits.relative_width * (1.0 + _ROUNDING)

    def suggested(self, loss_ratio: float, *, short: bool = True) -> Bounds:
        """Return the rates between which the loss ratio is met, if short trials are right.

        :param short: whether short trials are looked at at all.
        """
        lower, upper = self.proven(loss_ratio)
        believed = [
            (trial.rate_pps, passes(trial, loss_ratio)) for trial in self._believed(loss_ratio, short)
        ]
        proven = [(rate, passed) for rate, passed in ((lower, True), (upper, False)) if rate is not None]
        return _bounds([*believed, *proven])

    def believed(self, loss_ratio: float, *, short: bool = True) -> list[Trial]:
        """Return the trials without those short ones that a proven bound contradicts."""
        full = [made.trial for trials in self._full.values() for made in trials]
        return self._believed(loss_ratio, short) + full

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
        """Return whether a trial lost plainly more than this share, below a rate that passes it."""
        lower = self.proven(loss_ratio).lower
        if lower is None or trial.rate_pps >= lower or self.passes(trial.rate_pps, loss_ratio) is not None:
            return False
        return _exceeds(trial, loss_ratio)

    def is_disturbed(self, trial: Trial) -> bool:
        """Return whether a trial was ended by far more loss than the one at the next higher rate had."""
        others = [*self._short, *(made.trial for trials in self._full.values() for made in trials)]
        above = [other for other in others if other.rate_pps > trial.rate_pps]
        if not above or not ended_early(trial):
            return False
        next_higher = min(above, key=lambda other: other.rate_pps)
        return _exceeds(trial, _LUCK * next_higher.loss_ratio)

    def rate_to_confirm(self, loss_ratio: float) -> float | None:
        """Return the lower bound if its only pass may be luck; None if not, or if one was confirmed before.

        If loss comes in rare events, a search that goes down until a trial passes ends too high. It does
        so if a trial that lost too little for a short one to show it lost more than one at the next
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
        """Return the share that is lost at every rate, if lower rates do not lose less.

        The lowest rates that lost some frames are compared with the lowest ones some way above, three
        trials with three: frames are often lost in bursts, so it is the trials that count. It is a floor
        if the loss falls by less than the fourth power of the rate, the uncertainty included, and does not
        rise instead. Near its knee the loss of a device falls by the tenth power and more.
        """
        trials = sorted(self.believed(loss_ratio), key=lambda trial: trial.rate_pps)
        low = _Pool.of(trials)
        if low is None or low.loss_ratio <= loss_ratio:
            return None
        # A trial that ended with its first lost frame shows a moment, hardly a share.
        apart = _APART if low.lost >= _POOLED * FEWEST_LOST else _FAR_APART
        high = _Pool.of(trial for trial in trials if trial.rate_pps > low.highest_pps * math.exp(apart))
        if high is None or high.loss_ratio > _OVERLOADED:
            return None
        silent = (trial for trial in trials if trial.rate_pps < low.rate_pps and lost(trial) <= 0)
        if any(low.loss_ratio * trial.sent >= FEWEST_LOST for trial in silent):
            return None
        fall, span = math.log(high.loss_ratio / low.loss_ratio), math.log(high.rate_pps / low.rate_pps)
        # A device that pauses loses its first frame after the same time at any rate: no share of the frames.
        is_flat = -_STEEPEST_RISE * span < fall < _FLATTEST * span - _UNCERTAINTY
        return low.loss_ratio if is_flat else None

    def _believed(self, loss_ratio: float, short: bool) -> list[Trial]:
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
    """Frames, of all these trials."""
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
    """Return whether a trial lost more than this share, and that is not chance."""
    count, expected = lost(trial), loss_ratio * trial.sent
    if count <= expected:
        return False
    # Chernoff's bound of the probability that so many are lost, or more.
    return expected <= 0.0 or count * math.log(count / expected) - (count - expected) > _UNLIKELY


def _bounds(verdicts: Iterable[tuple[float, bool | None]]) -> Bounds:
    known = list(verdicts)
    upper = min((rate for rate, passed in known if passed is False), default=None)
    passing = (rate for rate, passed in known if passed and (upper is None or rate < upper))
    return Bounds(max(passing, default=None), upper)
