"""Estimate of the remaining time of a search, from its trials so far.

For each loss ratio, a search has to halve the interval until it is narrow enough, and to confirm its two
bounds in trials of the final duration:

* The durations of the halvings follow the plan of the phases: the last one has the final duration, the one
  before it the duration of the previous phase, and so on; earlier ones have the initial duration.
* A halving replaces one of the two bounds, so only half of the time to confirm the current bounds counts.
* A trial that passes takes its whole duration. A trial that fails may end early; its estimate is the mean
  fraction of the duration that failing trials of this loss ratio have taken so far.
* A bound that two loss ratios share is confirmed once, and a shared interval is halved once.

A search that has to measure outside its intervals takes longer. A search that predicts the ends of its
intervals needs no halvings: only the bounds remain to be confirmed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from perftrend.measure.search.parameters import Parameters, log_width
from perftrend.measure.search.trials import has_ended_early, passes
from perftrend.measurement import Interval, Phase, Trial

_ROUNDING = 1e-6


def seconds_left(parameters: Parameters, phases: Sequence[Phase], *, halves: bool = True) -> float:
    """Estimate the seconds of trials that a search still needs.

    :param parameters: the parameters of the search.
    :param phases: the phases begun so far, with their steps.
    :param halves: whether the search halves its intervals instead of predicting their ends.
    :returns: 0 or more, at most the time left before the timeout; 0 if nothing remains.
    """
    steps = [step for phase in phases for step in phase.steps]
    trials = [step.trial for step in steps]
    known = steps[-1].intervals if steps else ()
    seconds = _RemainingTime(parameters, trials, halves).seconds(known or _initial_intervals(parameters))
    if parameters.timeout_s is None:
        return seconds
    return min(seconds, max(0.0, parameters.timeout_s - sum(trial.elapsed_s for trial in trials)))


def _initial_intervals(parameters: Parameters) -> tuple[Interval, ...]:
    """Return intervals as after the initial phase: disjoint, twice as wide as the first width goal."""
    width = 2.0 * log_width(parameters.plan()[0].relative_width)
    edges = [math.exp(-number * width) for number in range(2 * len(parameters.loss_ratios))]
    return tuple(Interval(low, high) for high, low in zip(edges[::2], edges[1::2], strict=True))


class _RemainingTime:
    def __init__(self, parameters: Parameters, trials: Sequence[Trial], halves: bool) -> None:
        self._halves = halves
        self._parameters = parameters
        self._trials = trials
        # Only the latest trial at a rate counts.
        self._latest = {trial.rate_pps: trial for trial in trials}
        self._durations = [phase.duration_s for phase in parameters.plan()]

    def seconds(self, intervals: Iterable[Interval]) -> float:
        if not self._halves:
            return sum(map(self._foreseen, self._parameters.loss_ratios, intervals))
        # Keyed by rate and by interval: a trial for two loss ratios is measured once.
        bounds: dict[float, float] = {}
        halvings: dict[tuple[float, float], float] = {}
        for ratio, interval in zip(self._parameters.loss_ratios, intervals, strict=True):
            number = self._halvings(interval)
            lasting = self._mean_failure_share(ratio)
            retained = 0.5 if number else 1.0
            bounds.setdefault(interval.lower, retained * self._confirmation_s(interval.lower))
            bounds.setdefault(interval.upper, retained * lasting * self._confirmation_s(interval.upper))
            halving = (1.0 + lasting) / 2.0 * self._halving_duration_s(number)
            halvings.setdefault((interval.lower, interval.upper), halving)
        return sum(bounds.values()) + sum(halvings.values())

    def _confirmation_s(self, rate_pps: float) -> float:
        final_s = self._parameters.final_duration_s
        latest = self._latest.get(rate_pps)
        return 0.0 if latest is not None and latest.duration_s >= final_s else final_s

    def _foreseen(self, loss_ratio: float, interval: Interval) -> float:
        """Return the time to prove two bounds whose rates are predicted.

        A failing trial one width above the target rate ends with its first lost frames, or after about half
        of its duration if some loss is allowed. Without early ends it takes its whole duration.
        """
        lower, upper = self._confirmation_s(interval.lower), self._confirmation_s(interval.upper)
        if interval.relative_width > 2.0 * self._parameters.relative_width:
            lower = upper = self._parameters.final_duration_s
        ends_early = any(map(has_ended_early, self._trials))
        return lower + upper * (1.0 if not ends_early else 0.5 if loss_ratio else 0.0)

    def _halvings(self, interval: Interval) -> int:
        goal = log_width(self._parameters.relative_width)
        width = math.log(interval.upper / interval.lower)
        return math.ceil(math.log2(width / goal) - _ROUNDING) if width > goal else 0

    def _halving_duration_s(self, halvings: int) -> float:
        """Return the total duration of the halvings, of which the last ones take one phase each."""
        phases = self._durations[max(0, len(self._durations) - halvings) :]
        return sum(phases) + (halvings - len(phases)) * self._parameters.initial_duration_s

    def _mean_failure_share(self, loss_ratio: float) -> float:
        """Return the mean fraction of its duration that a failing trial took; 1 if no trial failed."""
        failed = [trial for trial in self._trials if not passes(trial, loss_ratio)]
        shares = [min(1.0, trial.elapsed_s / trial.duration_s) for trial in failed]
        return sum(shares) / len(shares) if shares else 1.0
