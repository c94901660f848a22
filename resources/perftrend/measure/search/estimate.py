"""How long a search will still take, estimated from what it has measured so far.

What remains is, for each loss ratio, to halve the interval until it is narrow enough, and to
confirm its two bounds in trials of the final duration:

* The halvings are spread as the phases plan it: the last one at the final duration, the one
  before at the duration of the phase before, and so on; still earlier ones at the initial one.
* A halving replaces one bound of the two, so that half of what the present ones lack is spared.
* A trial that passes takes its whole duration. One that fails may end early, and is taken for as
  long a share of it as failing trials of this loss ratio have lasted so far.
* A bound of two loss ratios is confirmed once, and an interval of two is halved once.

A search that has to look outside of its intervals takes longer than that. One that foresees where
its intervals end needs no halvings: what remains are the bounds to be confirmed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from perftrend.measure.search.parameters import Parameters, log_width
from perftrend.measure.search.trials import ended_early, passes
from perftrend.model import Interval, Phase, Trial

_ROUNDING = 1e-6


def seconds_left(parameters: Parameters, phases: Sequence[Phase], *, halves: bool = True) -> float:
    """Estimate the seconds of trials that a search still needs.

    :param parameters: what the search was asked for.
    :param phases: the phases that were begun, with the steps so far.
    :param halves: whether the search halves its intervals, or foresees where they end.
    :returns: 0 or more, at most what the timeout leaves; 0 when nothing remains.
    """
    steps = [step for phase in phases for step in phase.steps]
    trials = [step.trial for step in steps]
    known = steps[-1].intervals if steps else ()
    seconds = _Remaining(parameters, trials, halves).seconds(known or _expected(parameters))
    if parameters.timeout_s is None:
        return seconds
    return min(seconds, max(0.0, parameters.timeout_s - sum(trial.elapsed_s for trial in trials)))


def _expected(parameters: Parameters) -> tuple[Interval, ...]:
    """Return intervals as the initial phase leaves them: apart, twice as wide as the first goal."""
    width = 2.0 * log_width(parameters.plan()[0].relative_width)
    edges = [math.exp(-number * width) for number in range(2 * len(parameters.loss_ratios))]
    return tuple(Interval(low, high) for high, low in zip(edges[::2], edges[1::2], strict=True))


class _Remaining:
    def __init__(self, parameters: Parameters, trials: Sequence[Trial], halves: bool) -> None:
        self._halves = halves
        self._parameters = parameters
        self._trials = trials
        # The latest trial at a rate is the one that counts.
        self._latest = {trial.rate_pps: trial for trial in trials}
        self._durations = [phase.duration_s for phase in parameters.plan()]

    def seconds(self, intervals: Iterable[Interval]) -> float:
        if not self._halves:
            return sum(map(self._foreseen, self._parameters.loss_ratios, intervals))
        # By rate and by interval: what serves two loss ratios is measured once.
        bounds: dict[float, float] = {}
        halvings: dict[tuple[float, float], float] = {}
        for ratio, interval in zip(self._parameters.loss_ratios, intervals, strict=True):
            number = self._halvings(interval)
            lasting = self._failing_share(ratio)
            kept = 0.5 if number else 1.0
            bounds.setdefault(interval.lower, kept * self._confirming(interval.lower))
            bounds.setdefault(interval.upper, kept * lasting * self._confirming(interval.upper))
            halving = (1.0 + lasting) / 2.0 * self._planned(number)
            halvings.setdefault((interval.lower, interval.upper), halving)
        return sum(bounds.values()) + sum(halvings.values())

    def _confirming(self, rate_pps: float) -> float:
        final_s = self._parameters.final_duration_s
        latest = self._latest.get(rate_pps)
        return 0.0 if latest is not None and latest.duration_s >= final_s else final_s

    def _foreseen(self, loss_ratio: float, interval: Interval) -> float:
        """Return the time to prove two bounds that need not be searched for.

        A failing trial a width above the rate that is sought is over with its first lost frames, or
        after about half its time where some loss is allowed; if trials end early at all.
        """
        lower, upper = self._confirming(interval.lower), self._confirming(interval.upper)
        if interval.relative_width > 2.0 * self._parameters.relative_width:
            lower = upper = self._parameters.final_duration_s
        ends_early = any(map(ended_early, self._trials))
        return lower + upper * (1.0 if not ends_early else 0.5 if loss_ratio else 0.0)

    def _halvings(self, interval: Interval) -> int:
        goal = log_width(self._parameters.relative_width)
        width = math.log(interval.upper / interval.lower)
        return math.ceil(math.log2(width / goal) - _ROUNDING) if width > goal else 0

    def _planned(self, halvings: int) -> float:
        """Return the durations of so many halvings, the last of which are one a phase."""
        phases = self._durations[max(0, len(self._durations) - halvings) :]
        return sum(phases) + (halvings - len(phases)) * self._parameters.initial_duration_s

    def _failing_share(self, loss_ratio: float) -> float:
        """Return the share of its duration that a failing trial lasted, in the mean; 1 if none did."""
        failed = [trial for trial in self._trials if not passes(trial, loss_ratio)]
        shares = [min(1.0, trial.elapsed_s / trial.duration_s) for trial in failed]
        return sum(shares) / len(shares) if shares else 1.0
