"""The predictive search: short trials foretell where the bounds are, long ones prove them.

The loss ratios are sought one after the other, the largest first, because the trials for one tell
much of the next. Each is *located* by short trials, with as few as foretelling needs, and *bounded* by
trials of the final duration. Trials may be ended as soon as they have told what they were made for:
a proof when it is certain to fail, a look when enough frames are lost to tell the loss ratio.

What it promises is what the documented search promises. Every lower bound passed and every upper
bound failed, in trials of the final duration (a failing one may have been ended when that was
certain), and they are as near as was asked, or the interval says why not.
"""

from __future__ import annotations

import math
from dataclasses import replace

from perftrend.errors import SearchTimeoutError
from perftrend.measure.search.parameters import Parameters, PhasePlan
from perftrend.measure.search.predictive.crossing import Crossing
from perftrend.measure.search.predictive.evidence import FEWEST_LOST, Evidence
from perftrend.measure.search.predictive.onset import Onset
from perftrend.measure.search.predictive.sought import Sought
from perftrend.measure.search.record import Record
from perftrend.measure.search.result import SearchResult, Step
from perftrend.measure.search.trials import Measure
from perftrend.model import Interval, Trial

_OVERLOADED = 0.1
"""The first trial may end when it lost this share: enough to tell what the device forwards at most."""

_TELLING_LOST = 30
_TELLING_SHARE = 0.25
"""A look may end when it lost so many frames, and this share of what it was made to see."""


def search(measure: Measure, parameters: Parameters) -> SearchResult:
    """Search by prediction.

    :raises SearchTimeoutError: with what is known by then as its ``result``.
    """
    return _Search(measure, parameters).run()


class _Search:
    def __init__(self, measure: Measure, parameters: Parameters) -> None:
        self._parameters = parameters
        self._record = Record(measure, parameters, halves=False)
        self._evidence = Evidence(parameters)
        self._hopeless: dict[float, str] = {}

    def run(self) -> SearchResult:
        limits = self._parameters
        try:
            plan = PhasePlan("initial", limits.initial_duration_s, limits.relative_width)
            self._measure(plan, limits.maximum_pps, _OVERLOADED, "maximum rate")
            while remaining := [ratio for ratio in limits.loss_ratios if self._is_open(ratio)]:
                self._find(remaining[-1])
        except SearchTimeoutError as error:
            error.result = self._result(str(error))
            raise
        return self._result()

    def _is_open(self, loss_ratio: float) -> bool:
        return loss_ratio not in self._hopeless and not self._evidence.is_found(loss_ratio)

    def _find(self, loss_ratio: float) -> None:
        sought = self._sought(loss_ratio)
        while self._is_open(loss_ratio):
            self._look(sought)
            self._prove(sought)
            if sought.hopeless:
                self._hopeless[loss_ratio] = sought.hopeless

    def _sought(self, loss_ratio: float) -> Sought:
        rates = [trial.rate_pps for trial in self._evidence.believed(loss_ratio)]
        shown = loss_ratio * min(rates) * self._parameters.initial_duration_s
        kind = Crossing if shown >= FEWEST_LOST else Onset
        return kind(self._evidence, self._parameters, loss_ratio)

    def _look(self, sought: Sought) -> None:
        ratio, duration_s = sought.loss_ratio, self._parameters.initial_duration_s
        plan = PhasePlan(f"locate {ratio:g}", duration_s, self._parameters.relative_width)
        while (log_rate := sought.rate_to_look_at()) is not None:
            rate_pps = self._rate_pps(log_rate)
            telling = max(_TELLING_SHARE * ratio, (_TELLING_LOST + 0.5) / (rate_pps * duration_s))
            fail_above = min(telling, self._parameters.largest_loss_ratio)
            sought.looked(self._measure(plan, rate_pps, fail_above, f"where is {ratio:g} exceeded?"))

    def _prove(self, sought: Sought) -> None:
        ratio = sought.loss_ratio
        lower = self._evidence.proven(ratio).lower
        reason = f"{'lower' if lower is None else 'other'} bound of {ratio:g}"
        plan = PhasePlan(
            f"bound {ratio:g}", self._parameters.final_duration_s, self._parameters.relative_width
        )
        rate_pps = self._rate_pps(sought.rate_to_prove())
        while (passed := self._evidence.passes(rate_pps, ratio)) is None:
            trial = self._measure(plan, rate_pps, ratio, reason)
        sought.proved(trial, passed=passed)

    def _rate_pps(self, log_rate: float) -> float:
        # Two ways to the same rate end a rounding error apart, and must not make two rates of it.
        rate_pps = self._parameters.limited(math.exp(log_rate))
        measured = (trial.rate_pps for phase in self._record.phases for trial in phase.trials)
        return next((known for known in measured if math.isclose(known, rate_pps)), rate_pps)

    def _measure(self, plan: PhasePlan, rate_pps: float, fail_above: float, reason: str) -> Trial:
        phases = self._record.phases
        if not phases or phases[-1].name != plan.name:
            self._record.begin(plan)
        trial = self._record.measure(rate_pps, fail_above)
        self._evidence.add(trial, fail_above)
        self._record.keep(Step(trial, reason, tuple(map(self._known, self._parameters.loss_ratios))))
        return trial

    def _known(self, loss_ratio: float) -> Interval:
        """Return the interval as it seems now, from short trials too as long as they are needed."""
        evidence, limits = self._evidence, self._parameters
        is_open = self._is_open(loss_ratio)
        lower, upper = evidence.suggested(loss_ratio) if is_open else evidence.proven(loss_ratio)
        return Interval(lower or limits.minimum_pps, upper or limits.maximum_pps)

    def _result(self, unfinished: str = "") -> SearchResult:
        limits = self._parameters
        intervals = tuple(self._interval(ratio, unfinished) for ratio in limits.loss_ratios)
        return SearchResult(
            limits.loss_ratios, intervals, self._record.phases, needed_passes=limits.needed_passes
        )

    def _interval(self, loss_ratio: float, unfinished: str) -> Interval:
        lower, upper = self._evidence.proven(loss_ratio)
        limits = self._parameters
        interval = Interval(lower or limits.minimum_pps, upper or limits.maximum_pps)
        if upper is not None and upper <= limits.minimum_pps:
            share = max(self._evidence.losses_at(upper))
            return replace(
                interval,
                invalid=f"{share:.3g} was lost at the minimum rate, {upper:.6g} pps: "
                f"the rate of loss ratio {loss_ratio:g} lies below it",
            )
        floor = self._hopeless.get(loss_ratio)
        reason = f"{floor}: there is no rate of loss ratio {loss_ratio:g}" if floor else unfinished
        return replace(interval, invalid=reason)
