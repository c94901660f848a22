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
from perftrend.measure.search.predictive.evidence import FEWEST_LOST, Bounds, Evidence
from perftrend.measure.search.predictive.onset import Onset
from perftrend.measure.search.predictive.sought import Sought
from perftrend.measure.search.record import OnStep, Record
from perftrend.measure.search.result import SearchResult, Step
from perftrend.measure.search.trials import Measure, lies_below
from perftrend.model import Interval, Trial

_OVERLOADED = 0.1
"""The first trial may end when it lost this share: enough to tell what the device forwards at most."""

_TELLING_LOST = 30
_TELLING_SHARE = 0.25
"""A look may end when it lost so many frames, and this share of what it was made to see."""


def search(measure: Measure, parameters: Parameters, on_step: OnStep | None = None) -> SearchResult:
    """Search by prediction.

    :param on_step: is told after each trial how far the search has come.
    :raises SearchTimeoutError: with what is known by then as its ``result``.
    """
    return _Search(Record(measure, parameters, on_step, halves=False), parameters).run()


class _Search:
    def __init__(self, record: Record, parameters: Parameters) -> None:
        self._parameters = parameters
        self._record = record
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
        return self._record.known_rate(self._parameters.limited(math.exp(log_rate)))

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
        evidence, is_open = self._evidence, self._is_open(loss_ratio)
        return self._within(evidence.suggested(loss_ratio) if is_open else evidence.proven(loss_ratio))

    def _within(self, bounds: Bounds) -> Interval:
        """Return an interval that reaches to a limit of the rates where there is no bound."""
        limits = self._parameters
        return Interval(bounds.lower or limits.minimum_pps, bounds.upper or limits.maximum_pps)

    def _result(self, unfinished: str = "") -> SearchResult:
        limits = self._parameters
        intervals = tuple(self._interval(ratio, unfinished) for ratio in limits.loss_ratios)
        return SearchResult(
            limits.loss_ratios, intervals, self._record.phases, needed_passes=limits.needed_passes
        )

    def _interval(self, loss_ratio: float, unfinished: str) -> Interval:
        bounds = self._evidence.proven(loss_ratio)
        missing = unfinished if self._is_open(loss_ratio) else ""
        return replace(self._within(bounds), invalid=self._why_none(loss_ratio, bounds.upper) or missing)

    def _why_none(self, loss_ratio: float, upper_pps: float | None) -> str:
        """Say why there is no rate of a loss ratio within the limits; nothing if there is one."""
        if upper_pps is not None and upper_pps <= self._parameters.minimum_pps:
            return lies_below(loss_ratio, max(self._evidence.losses_at(upper_pps)), upper_pps)
        floor = self._hopeless.get(loss_ratio)
        return f"{floor}: there is no rate of loss ratio {loss_ratio:g}" if floor else ""
