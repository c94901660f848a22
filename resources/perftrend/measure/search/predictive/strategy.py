"""The predictive search: short trials predict the bounds, long trials prove them.

The loss ratios are searched one after the other, the largest first, because the trials for one provide much
information about the next. Each is *located* by as few short trials as the prediction needs, and *bounded* by
trials of the final duration. Trials may end as soon as they have served their purpose: a proof when it is
certain to fail, a short trial when enough frames are lost to determine the loss ratio.

The guarantees are those of the MDR search of the CSIT method. Every lower bound passed and every upper bound
failed, in trials of the final duration (a failing trial may have been ended when that was certain). The
bounds are as close as required, or the interval contains the reason why not.
"""

from __future__ import annotations

import math
from dataclasses import replace

from perftrend.errors import SearchTimeoutError
from perftrend.measure.search.parameters import Parameters, PhasePlan
from perftrend.measure.search.predictive.evidence import FEWEST_LOST, RateBounds, TrialEvidence
from perftrend.measure.search.predictive.ndr_target import NdrTarget
from perftrend.measure.search.predictive.pdr_target import PdrTarget
from perftrend.measure.search.predictive.target import SearchTarget
from perftrend.measure.search.record import OnStep, TrialRecorder
from perftrend.measure.search.result import SearchResult, Step
from perftrend.measure.search.trials import Measure, explain_missing_lower_bound, passes
from perftrend.measurement import Interval, Trial

_OVERLOADED = 0.1
"""A short trial may end at this loss ratio: it then shows the highest rate that the device forwards."""

_WHOLE = 1.0
"""No trial exceeds this loss ratio, so a trial with this limit is never ended early."""

_INFORMATIVE_LOST = 12
_INFORMATIVE_SHARE = 0.25
"""A short trial may end when it lost this many frames, and this fraction of the target loss ratio."""


def search(measure: Measure, parameters: Parameters, on_step: OnStep | None = None) -> SearchResult:
    """Search with predictions from short trials.

    :param on_step: called after each trial with the progress of the search.
    :raises SearchTimeoutError: with the bounds known so far as its ``result``.
    """
    return _PredictiveSearch(TrialRecorder(measure, parameters, on_step, halves=False), parameters).run()


class _PredictiveSearch:
    def __init__(self, record: TrialRecorder, parameters: Parameters) -> None:
        self._parameters = parameters
        self._record = record
        self._evidence = TrialEvidence(parameters)
        self._hopeless: dict[float, str] = {}
        self._sought: dict[float, SearchTarget] = {}

    def run(self) -> SearchResult:
        limits = self._parameters
        try:
            plan = PhasePlan("initial", limits.initial_duration_s, limits.relative_width)
            self._measure(plan, limits.maximum_pps, _OVERLOADED, "maximum rate")
            if self._evidence.ends_early is False:
                # Failing is expensive: check first whether lower rates lose more than higher ones.
                for ratio in reversed(limits.loss_ratios):
                    self._sought[ratio] = self._create_target(ratio)
                    self._look(self._sought[ratio])
            while remaining := [ratio for ratio in limits.loss_ratios if self._is_open(ratio)]:
                self._find(remaining[-1])
        except SearchTimeoutError as error:
            error.result = self._result(str(error))
            raise
        return self._result()

    def _is_open(self, loss_ratio: float) -> bool:
        return loss_ratio not in self._hopeless and not self._evidence.is_found(loss_ratio)

    def _find(self, loss_ratio: float) -> None:
        """Search for a loss ratio until it is found, or until a larger one must be searched for again."""
        sought = self._sought.pop(loss_ratio, None) or self._create_target(loss_ratio)
        while self._is_next(loss_ratio):
            self._look(sought)
            if self._is_next(loss_ratio):
                self._prove(sought)
            if sought.hopeless:
                self._hopeless[loss_ratio] = sought.hopeless
            elif not self._is_open(loss_ratio):
                self._confirm(loss_ratio)
        if self._is_open(loss_ratio):
            # The search resumes with this state when the larger loss ratio is found again.
            self._sought[loss_ratio] = sought

    def _is_next(self, loss_ratio: float) -> bool:
        return self._is_open(loss_ratio) and not any(map(self._is_open, self._larger(loss_ratio)))

    def _larger(self, loss_ratio: float) -> list[float]:
        return [ratio for ratio in self._parameters.loss_ratios if ratio > loss_ratio]

    def _create_target(self, loss_ratio: float) -> SearchTarget:
        rates = [trial.rate_pps for trial in self._evidence.consistent_trials(loss_ratio)]
        shown = loss_ratio * min(rates) * self._parameters.initial_duration_s
        kind = PdrTarget if shown >= FEWEST_LOST else NdrTarget
        return kind(self._evidence, self._parameters, loss_ratio)

    def _look(self, sought: SearchTarget) -> None:
        ratio, duration_s = sought.loss_ratio, self._parameters.initial_duration_s
        while (log_rate := sought.rate_to_look_at()) is not None:
            rate_pps = self._rate_pps(log_rate)
            informative = max(_INFORMATIVE_SHARE * ratio, (_INFORMATIVE_LOST + 0.5) / (rate_pps * duration_s))
            fail_above = min(informative, _OVERLOADED)
            reason = f"where is {ratio:g} exceeded?"
            trial = self._measure(self._short(ratio), rate_pps, fail_above, reason)
            if self._evidence.is_disturbed(trial):
                # The next short trials would meet the same disturbance, and lead away from the target.
                trial = self._measure(self._short(ratio), rate_pps, _WHOLE, f"{reason} (disturbed)")
            sought.process_short_trial(trial)
            self._reconsider(ratio, trial)

    def _prove(self, sought: SearchTarget) -> None:
        ratio = sought.loss_ratio
        lower = self._evidence.proven(ratio).lower
        reason = f"{'lower' if lower is None else 'other'} bound of {ratio:g}"
        trial, passed = self._decide(ratio, self._rate_pps(sought.rate_to_prove()), reason)
        sought.process_proof(trial, passed=passed)
        self._reconsider(ratio, trial)

    def _confirm(self, loss_ratio: float) -> None:
        rate_pps = self._evidence.rate_to_confirm(loss_ratio)
        if rate_pps is not None:
            self._measure(self._full(loss_ratio), rate_pps, loss_ratio, f"was {loss_ratio:g} met by luck?")

    def _decide(self, loss_ratio: float, rate_pps: float, reason: str) -> tuple[Trial, bool]:
        """Measure for the final duration until a rate is decided; return the last trial and the decision."""
        plan = self._full(loss_ratio)
        while (passed := self._evidence.passes(rate_pps, loss_ratio)) is None:
            trial = self._measure(plan, rate_pps, loss_ratio, reason)
        return trial, passed

    def _reconsider(self, sought_ratio: float, trial: Trial) -> None:
        """Decide on larger loss ratios, too, if a trial for a smaller one seems to exceed them.

        The trial may end before it proves anything about a larger ratio. If it lost more than that, below a
        rate that passes it, the device loses less at higher rates or was disturbed at that moment. Two short
        trials that run to their end outlast a disturbance.
        """
        for ratio in self._larger(sought_ratio):
            if not self._evidence.casts_doubt(trial, ratio):
                continue
            reason = f"is {ratio:g} exceeded here, too?"
            plan = self._short(sought_ratio)
            again = (self._measure(plan, trial.rate_pps, _WHOLE, reason) for _ in range(2))
            is_exceeded = not any(passes(whole, ratio) for whole in again)
            if is_exceeded and self._evidence.passes(trial.rate_pps, ratio) is None:
                self._decide(ratio, trial.rate_pps, reason)

    def _full(self, loss_ratio: float) -> PhasePlan:
        limits = self._parameters
        return PhasePlan(f"bound {loss_ratio:g}", limits.final_duration_s, limits.relative_width)

    def _short(self, loss_ratio: float) -> PhasePlan:
        limits = self._parameters
        return PhasePlan(f"locate {loss_ratio:g}", limits.initial_duration_s, limits.relative_width)

    def _rate_pps(self, log_rate: float) -> float:
        return self._record.match_measured_rate(self._parameters.clamp(math.exp(log_rate)))

    def _measure(self, plan: PhasePlan, rate_pps: float, fail_above: float, reason: str) -> Trial:
        phases = self._record.phases
        if not phases or phases[-1].name != plan.name:
            self._record.begin(plan)
        trial = self._record.measure(rate_pps, fail_above)
        self._evidence.add(trial, fail_above)
        self._record.add_step(
            Step(trial, reason, tuple(map(self._current_interval, self._parameters.loss_ratios)))
        )
        return trial

    def _current_interval(self, loss_ratio: float) -> Interval:
        """Return the current estimate of the interval, from short trials, too, while the search is open."""
        evidence, is_open = self._evidence, self._is_open(loss_ratio)
        return self._within(evidence.suggest_bounds(loss_ratio) if is_open else evidence.proven(loss_ratio))

    def _within(self, bounds: RateBounds) -> Interval:
        """Return the interval of the bounds, with a limit of the rates in place of an unknown bound."""
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
        """Return why no rate within the limits meets a loss ratio; empty if one does."""
        if upper_pps is not None and upper_pps <= self._parameters.minimum_pps:
            return explain_missing_lower_bound(
                loss_ratio, max(self._evidence.losses_at(upper_pps)), upper_pps
            )
        floor = self._hopeless.get(loss_ratio)
        return f"{floor}: no rate has loss ratio {loss_ratio:g}" if floor else ""
