"""What the trials of a search prove, and what they merely suggest.

A trial of the final duration proves that its rate passes or fails, and only such rates bound a
result. Shorter trials suggest where to look, and are believed until a trial of the final duration
contradicts them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from perftrend.measure.search.parameters import Parameters
from perftrend.measure.search.trials import ended_early, lost, passes
from perftrend.model import Interval, Trial

FEWEST_LOST = 5
"""Fewer lost frames say little about the loss ratio."""

_ROUNDING = 1e-9

_POOLED = 3
_UNCERTAINTY = 2.0 * math.sqrt(2.0 / _POOLED)
"""Of ln of the ratio of two losses, each from so many trials: twice its deviation, if each counts as one."""

_APART = 0.03
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

    def losses_at(self, rate_pps: float) -> Sequence[float]:
        """Return the loss ratios of the trials of the final duration at a rate."""
        return [made.trial.loss_ratio for made in self._full.get(rate_pps, ())]

    def loss_floor(self, loss_ratio: float) -> float | None:
        """Return the share that is lost at every rate, if lower rates do not lose less.

        The lowest rates that lost some frames are compared with the lowest ones some way above, three
        trials with three: frames are often lost in bursts, so it is the trials that count. It is a floor
        where the loss falls by less than the fourth power of the rate, the uncertainty included. Near
        its knee the loss of a device falls by the tenth power and more.
        """
        trials = sorted(self.believed(loss_ratio), key=lambda trial: trial.rate_pps)
        low = _Pool.of(trials)
        if low is None or low.loss_ratio <= loss_ratio:
            return None
        high = _Pool.of(trial for trial in trials if trial.rate_pps > low.highest_pps * math.exp(_APART))
        if high is None or high.loss_ratio > _OVERLOADED:
            return None
        silent = (trial for trial in trials if trial.rate_pps < low.rate_pps and lost(trial) <= 0)
        if any(low.loss_ratio * trial.sent >= FEWEST_LOST for trial in silent):
            return None
        fall = math.log(high.loss_ratio / low.loss_ratio) + _UNCERTAINTY
        return low.loss_ratio if fall < _FLATTEST * math.log(high.rate_pps / low.rate_pps) else None

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
    loss_ratio: float

    @classmethod
    def of(cls, trials: Iterable[Trial]) -> _Pool | None:
        """Pool the first of these trials that lost frames; None if too few did."""
        pooled = [trial for trial in trials if lost(trial) > 0][:_POOLED]
        if len(pooled) < _POOLED:
            return None
        return cls(
            math.exp(math.fsum(math.log(trial.rate_pps) for trial in pooled) / _POOLED),
            pooled[-1].rate_pps,
            sum(map(lost, pooled)) / sum(trial.sent for trial in pooled),
        )


def _bounds(verdicts: Iterable[tuple[float, bool | None]]) -> Bounds:
    known = list(verdicts)
    upper = min((rate for rate, passed in known if passed is False), default=None)
    passing = (rate for rate, passed in known if passed and (upper is None or rate < upper))
    return Bounds(max(passing, default=None), upper)
