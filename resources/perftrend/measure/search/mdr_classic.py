"""The MDR search of the CSIT method: an initial phase, intermediate ones and a final one for all loss ratios.

The *initial phase* measures at the maximum rate, at the rate received there (MRR) and at the rate received at
the MRR (MRR2), which gives the first interval. Each *non-initial phase* chooses rates to measure until every
interval is valid, narrow enough and measured at the duration of the phase. The next phase uses longer trials
and half the width.

A trial counts for all loss ratios. It may therefore end early only if it is certain to fail for the largest
one. The first two trials of the initial phase always run to their end, because their receive rates are
needed.

Source: "MDR Search", sections Search Implementation and Implementation Deviations.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from perftrend.errors import SearchTimeoutError
from perftrend.measure.search.bounds import Bounds
from perftrend.measure.search.parameters import Parameters, PhasePlan
from perftrend.measure.search.record import OnStep, TrialRecorder
from perftrend.measure.search.result import SearchResult, Step
from perftrend.measure.search.trials import Measure, passes
from perftrend.measurement import Interval, Trial


class RateChoice(NamedTuple):
    """The rate to measure next, and why."""

    rate_pps: float
    reason: str


def search(measure: Measure, parameters: Parameters, on_step: OnStep | None = None) -> SearchResult:
    """Search by the MDR algorithm of the CSIT method, with its six deviations.

    :param on_step: called after each trial with the progress of the search.
    :raises SearchTimeoutError: with the bounds known so far as its ``result``.
    """
    return _MdrSearch(TrialRecorder(measure, parameters, on_step), parameters).run()


def next_choice(intervals: tuple[Bounds, ...], phase: PhasePlan) -> RateChoice | None:
    """Return the next rate to measure in a phase; None if the phase is done.

    :param intervals: the bounds of each loss ratio, the smallest (NDR) first.
    :param phase: the trial duration and the width goal of the phase.

    Source: "MDR Search", section Non-initial phases, point 2.
    """
    refined = [bounds for bounds in intervals if not bounds.below_minimum]
    return (
        _external_search(refined, phase)
        or _internal_search(refined, phase)
        or _measure_again(intervals, phase)
    )


def _external_search(refined: list[Bounds], phase: PhasePlan) -> RateChoice | None:
    for bounds in refined:
        if not bounds.lower_valid:
            return RateChoice(bounds.below_pps(phase), f"lower bound of {bounds.loss_ratio:g} exceeds it")
    for bounds in refined:
        if not bounds.upper_valid:
            return RateChoice(
                bounds.above_pps(phase), f"upper bound of {bounds.loss_ratio:g} does not exceed it"
            )
    return None


def _internal_search(refined: list[Bounds], phase: PhasePlan) -> RateChoice | None:
    for bounds in refined:
        if bounds.interval.relative_width > phase.relative_width:
            return RateChoice(bounds.middle_pps, f"interval of {bounds.loss_ratio:g} is too wide")
    return None


def _measure_again(intervals: tuple[Bounds, ...], phase: PhasePlan) -> RateChoice | None:
    for bounds in intervals:
        if bounds.lower.duration_s < phase.duration_s:
            return RateChoice(
                bounds.lower.rate_pps, f"lower bound of {bounds.loss_ratio:g} was measured for a shorter time"
            )
    for bounds in intervals:
        # An upper bound is of no use for an interval whose lower bound fails at the minimum rate.
        if bounds.upper.duration_s < phase.duration_s and not bounds.below_minimum:
            return RateChoice(
                bounds.upper.rate_pps, f"upper bound of {bounds.loss_ratio:g} was measured for a shorter time"
            )
    return None


def _is_done(bounds: Bounds, last: PhasePlan) -> bool:
    """Return whether the last phase is done for a loss ratio."""
    return (
        bounds.lower_valid
        and bounds.upper_valid
        and bounds.interval.relative_width <= last.relative_width
        and min(bounds.lower.duration_s, bounds.upper.duration_s) >= last.duration_s
    )


class _MdrSearch:
    def __init__(self, record: TrialRecorder, parameters: Parameters) -> None:
        self._parameters = parameters
        self._record = record
        self._intervals: tuple[Bounds, ...] = ()

    def run(self) -> SearchResult:
        plan = self._parameters.plan()
        try:
            self._initial_phase(plan[0])
            for phase in plan:
                self._phase(phase)
        except SearchTimeoutError as error:
            error.result = self._partial_result(str(error))
            raise
        return self._result(tuple(bounds.interval for bounds in self._intervals))

    def _initial_phase(self, following: PhasePlan) -> None:
        limits, width = self._parameters, following.log_width
        self._record.begin(PhasePlan("initial", limits.initial_duration_s, following.relative_width))
        first = self._trial(RateChoice(limits.maximum_pps, "maximum rate"), fail_above=None)
        mrr = limits.clamp(min(first.receive_rate_pps, limits.shift(limits.maximum_pps, -width)))
        second = self._trial(RateChoice(mrr, "MRR"), fail_above=None)
        if mrr > limits.minimum_pps and not passes(second, 0.0):
            mrr2 = limits.clamp(min(second.receive_rate_pps, limits.shift(mrr, -width)))
        else:
            # No frame was lost, or the MRR is at the minimum rate: the interval extends upwards.
            mrr2 = limits.shift(mrr, width)
        if mrr2 == limits.maximum_pps:
            third = first
        else:
            third = self._trial(RateChoice(mrr2, "MRR2"), fail_above=limits.largest_loss_ratio)
        lower, upper = sorted((second, third), key=lambda trial: trial.rate_pps)
        self._intervals = tuple(Bounds(ratio, lower, upper, limits) for ratio in limits.loss_ratios)

    def _phase(self, phase: PhasePlan) -> None:
        self._record.begin(phase)
        while choice := next_choice(self._intervals, phase):
            self._trial(choice, fail_above=self._parameters.largest_loss_ratio)

    def _trial(self, choice: RateChoice, *, fail_above: float | None) -> Trial:
        trial = self._record.measure(self._record.match_measured_rate(choice.rate_pps), fail_above)
        self._intervals = tuple(bounds.with_trial(trial) for bounds in self._intervals)
        known = tuple(bounds.interval for bounds in self._intervals)
        self._record.add_step(Step(trial, choice.reason, known))
        return trial

    def _partial_result(self, reason: str) -> SearchResult:
        limits = self._parameters
        if not self._intervals:
            nothing = Interval(limits.minimum_pps, limits.maximum_pps, reason)
            return self._result((nothing,) * len(limits.loss_ratios))
        last = limits.plan()[-1]
        return self._result(
            tuple(
                bounds.interval if _is_done(bounds, last) else replace(bounds.interval, invalid=reason)
                for bounds in self._intervals
            )
        )

    def _result(self, intervals: tuple[Interval, ...]) -> SearchResult:
        return SearchResult(self._parameters.loss_ratios, intervals, self._record.phases)
