"""Procedures of a performance test on an open testbed, with counters.

The device must be started and the traffic selected before. The result is one
:class:`~perftrend.measurement.Measurement`, which contains the reason if it is not valid.

Source: "Continuous Performance Trending and Analysis", section Performance Trending.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from perftrend import measurement
from perftrend.errors import SearchTimeoutError, SettingsError
from perftrend.measure.interfaces import Counters
from perftrend.measure.search import (
    Measure,
    OnStep,
    SearchResult,
    TrialProgress,
    binary_search,
    bounds_below,
    hold,
    mdr_search,
    measure_mrr,
    soak,
    within,
)
from perftrend.measure.search.trials import first_doubt, lost, passes
from perftrend.measure.specification import HoldPlan, MrrPlan, ReconfPlan, SearchPlan, SoakPlan
from perftrend.measure.testbed import Testbed
from perftrend.measure.trial_validity import EXACT, OVERLOAD, WIDTH_PART, TrialHook
from perftrend.measurement import (
    LATENCY_LOADS,
    CriticalLoad,
    HeldRate,
    Interval,
    LoadLatency,
    Measurement,
    Phase,
    Reconfiguration,
    Trial,
)

_WHOLE_SHARE = 0.9
"""A trial that sent a smaller part of its frames was ended early."""
_MIDDLE = 0.5
_RECONF_LOAD = 0.9
"""The device is reconfigured under this fraction of NDR."""
_RECONF_BEGIN = 0.2
"""The part of that trial before the reconfiguration."""


class Procedure:
    """One test, which measures on an open testbed and collects counters.

    :param counters_file: receives the counters as JSON, keyed by the step that collected them.
    :param root: the folder that the path of that file in the measurement is relative to.
    """

    def __init__(self, testbed: Testbed, counters_file: Path, root: Path) -> None:
        self._testbed = testbed
        self._file = counters_file
        self._root = root
        self._collected: dict[str, Any] = {}
        self._started = datetime.now(UTC)

    def mrr(self, plan: MrrPlan) -> Measurement:
        """Send at the highest rate, regardless of loss; every trial gives a sample.

        The counters are those of the last start only, because each start is a separate process.
        """
        before = self._testbed.counters()

        def restart() -> None:
            nonlocal before
            self._testbed.counters()  # raises an error if the device has ended: its trials show no rate
            self._testbed.restart_device()
            before = self._testbed.counters()

        result = measure_mrr(
            partial(self._testbed.trials.measure, deviation=OVERLOAD),
            rate_pps=self._testbed.maximum_pps,
            duration_s=plan.duration_s,
            multiplicity=plan.multiplicity,
            starts=min(plan.starts, plan.multiplicity),
            restart=restart,
        )
        self._collect("mrr", self._testbed.maximum_pps, before)
        limit = self._testbed.generator_limit(sum(result.samples) / len(result.samples))
        return replace(
            self._measurement("mrr", invalid=result.invalid or limit),
            samples=tuple(result.samples),
            cycles_per_packet=self._cycles_per_packet("mrr", since="before"),
        )

    def ndr_and_pdr(self, plan: SearchPlan, *, on_step: OnStep | None = None) -> Measurement:
        """Search for NDR and PDRs, by binary search or by MDR search, according to the plan's strategy.

        If the search exceeds its time limit, the intervals found by then are valid, the others are not.
        If the generator measures latency, a trial at each of the ``LATENCY_LOADS`` follows.

        :param on_step: called after each trial with the progress of an MDR search.
        :raises SearchTimeoutError: if an MDR search found no interval by then; its ``result`` is an invalid
            measurement with every trial and the bounds known so far.
        """
        return self._search("ndrpdr", plan.goals, plan, on_step)

    def binary(self, metric: str, plan: SearchPlan) -> Measurement:
        """Search for one rate, ``ndr`` or ``pdr``, by binary search within bounds from MRR and loss ratio."""
        return self._by_binary_search("binary", {metric: plan.goals[metric]}, plan)

    def _search(
        self, kind: str, goals: Mapping[str, float], plan: SearchPlan, on_step: OnStep | None
    ) -> Measurement:
        if plan.strategy == "binary":
            return replace(self._by_binary_search(kind, goals, plan), strategy=plan.strategy)
        return self._by_mdr_search(kind, goals, plan, on_step)

    def _by_mdr_search(
        self, kind: str, goals: Mapping[str, float], plan: SearchPlan, on_step: OnStep | None
    ) -> Measurement:
        accepted: list[Trial] = []
        try:
            result = mdr_search(
                self._create_recording_measure(accepted, deviation=WIDTH_PART * plan.relative_width),
                maximum_pps=self._testbed.maximum_pps,
                loss_ratios=tuple(goals.values()),
                on_step=on_step,
                **plan.options,
            )
        except SearchTimeoutError as error:
            if not isinstance(error.result, SearchResult) or not error.result.is_any_found:
                raise self._timeout_error(error, kind, goals, accepted, plan) from None
            result = error.result
        found = self._finish_search(kind, _intervals(result, goals), result.invalid, plan)
        valid = {name: ratio for name, ratio in goals.items() if not found.intervals[name].invalid}
        conditional = _conditional_throughput(result, valid) if plan.trials_per_bound > 1 else {}
        return replace(
            found,
            loss_ratios=dict(goals),
            phases=_of_trials(result.phases, accepted),
            strategy=plan.strategy,
            conditional_throughput_pps=conditional,
            mrr_pps=self._mrr_pps(accepted),
        )

    def _by_binary_search(self, kind: str, goals: Mapping[str, float], plan: SearchPlan) -> Measurement:
        """Search for the rates one after the other, each within bounds from MRR and loss ratio."""
        first = self._testbed.trials.measure(
            self._testbed.maximum_pps, plan.initial_duration_s, deviation=OVERLOAD
        )
        measure = partial(self._testbed.trials.measure, deviation=WIDTH_PART * plan.relative_width)
        limited = within(measure, plan.timeout_s)
        intervals: dict[str, Interval] = {}
        for name, loss_ratio in goals.items():
            lower_pps, upper_pps = bounds_below(
                first.receive_rate_pps,
                loss_ratio=loss_ratio,
                minimum_pps=plan.minimum_pps,
                maximum_pps=self._testbed.maximum_pps,
            )
            try:
                intervals[name] = binary_search(
                    limited,
                    lower_pps=lower_pps,
                    upper_pps=upper_pps,
                    loss_ratio=loss_ratio,
                    duration_s=plan.final_duration_s,
                    relative_width=plan.relative_width,
                    maximum_pps=self._testbed.maximum_pps,
                )
            except SearchTimeoutError as error:
                intervals[name] = Interval(lower_pps, upper_pps, str(error))
        found = self._finish_search(kind, intervals, first.invalid, plan)
        return replace(found, loss_ratios=dict(goals), mrr_pps=self._mrr_pps([first]))

    def soak(self, plan: SoakPlan, *, on_step: OnStep | None = None) -> Measurement:
        """Estimate the critical load by long trials near it; the counters cover all trials.

        :param on_step: called after each trial with the progress of the soak test.
        """
        before = self._testbed.counters()
        result = soak(
            self._create_progress_measure("soak", plan.total_duration_s, on_step),
            maximum_pps=self._testbed.maximum_pps,
            **plan.model_dump(),
        )
        self._collect("soak", result.critical_pps, before)
        invalid = result.invalid or self._testbed.generator_limit(result.critical_pps)
        return replace(
            self._measurement("soak", invalid=invalid),
            intervals={"soak": Interval(result.lower, result.upper, result.invalid)},
            critical_load=CriticalLoad(
                rate_pps=result.critical_pps,
                target_loss_ratio=result.target_loss_ratio,
                credibility=result.credibility,
                hiccups=result.hiccups,
            ),
        )

    def hold(self, plan: HoldPlan, *, on_step: OnStep | None = None) -> Measurement:
        """Offer one rate for a long time; each slice gives a sample, and all together the loss ratio.

        :param on_step: called after each slice with the progress of the test.
        :raises SettingsError: if the rate exceeds the highest rate that can be offered.
        """
        self._check_rate("hold", plan.rate_pps)
        before = self._testbed.counters()
        result = hold(
            self._create_progress_measure("hold", plan.duration_s, on_step),
            rate_pps=plan.rate_pps,
            duration_s=plan.duration_s,
            slices=plan.slices,
        )
        self._collect("hold", plan.rate_pps, before)
        return replace(
            self._measurement("hold", invalid=result.invalid),
            samples=tuple(trial.receive_rate_pps for trial in result.slices),
            held=HeldRate(
                rate_pps=plan.rate_pps,
                loss_ratio=result.loss_ratio,
                loss_ratio_limit=result.loss_ratio_limit,
                confidence=result.confidence,
                lossy_slices=result.lossy_slices,
                bursty=result.bursty,
            ),
        )

    def reconf(self, plan: ReconfPlan, *, on_step: OnStep | None = None) -> Measurement:
        """Reconfigure the device while traffic runs, at a fraction of NDR or at a rate of the plan.

        All lost frames of the trial count: the device forwards this rate without loss. A trial without
        reconfiguration before it shows whether it does.

        :param on_step: called after each trial of the search for NDR.
        :raises SettingsError: if the rate exceeds the highest rate that can be offered.
        :raises SearchTimeoutError: as :meth:`ndr_and_pdr`.
        """
        if plan.rate_pps:
            self._check_rate("reconfigure at", plan.rate_pps)
            return self._reconf_at(plan.rate_pps, plan)
        found = self._search("reconf", {"ndr": 0.0}, plan.search, on_step)
        if found.invalid:
            return found
        return replace(
            self._reconf_at(_RECONF_LOAD * found.intervals["ndr"].lower, plan),
            intervals=found.intervals,
            loss_ratios=found.loss_ratios,
            phases=found.phases,
            strategy=found.strategy,
            conditional_throughput_pps=found.conditional_throughput_pps,
            mrr_pps=found.mrr_pps,
        )

    def _reconf_at(self, rate_pps: float, plan: ReconfPlan) -> Measurement:
        baseline = self._testbed.trials.measure(rate_pps, plan.duration_s)
        before = self._testbed.counters()
        duration_s = 0.0

        def reconfigure() -> None:
            nonlocal duration_s
            begin = time.monotonic()
            self._testbed.reconfigure_device(plan.changes)
            duration_s = time.monotonic() - begin

        def restart() -> None:
            nonlocal before
            self._testbed.restart_device()
            before = self._testbed.counters()

        hook = TrialHook(reconfigure, begin=_RECONF_BEGIN, prepare=restart)
        trial = self._testbed.trials.measure(rate_pps, plan.duration_s, hook=hook)
        self._collect("reconf", rate_pps, before)
        doubt = first_doubt((baseline, trial))
        if not doubt and not hook.has_finished:
            doubt = f"the reconfiguration had not ended after {plan.duration_s:g} s of traffic"
        if not doubt and 0 < lost(trial) <= lost(baseline):
            doubt = f"without reconfiguration, {lost(baseline)} frames were lost in the same time"
        return replace(
            self._measurement("reconf", invalid=doubt),
            reconfiguration=Reconfiguration(
                rate_pps=rate_pps,
                changes=plan.changes,
                duration_s=duration_s,
                lost=max(0, lost(trial)),
                baseline_lost=max(0, lost(baseline)),
            ),
        )

    def _check_rate(self, what: str, rate_pps: float) -> None:
        if rate_pps > self._testbed.maximum_pps:
            raise SettingsError(
                f"rate_pps to {what} is {rate_pps:.6g}; testbed {self._testbed.spec.name} can offer at "
                f"most {self._testbed.maximum_pps:.6g} with {self._testbed.traffic.frame.name} frames"
            )

    def _create_progress_measure(self, what: str, total_s: float, on_step: OnStep | None) -> Measure:
        """Return a measure function that reports the rest of the planned time after each trial."""
        spent: list[Trial] = []
        measure_and_record = self._create_recording_measure(spent)

        def measure(rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
            trial = measure_and_record(rate_pps, duration_s, fail_above)
            if on_step is not None:
                left_s = total_s - sum(trial.duration_s for trial in spent)
                elapsed_s = sum(trial.elapsed_s for trial in spent)
                on_step(TrialProgress(what, (), (), elapsed_s, seconds_left=max(0.0, left_s)))
            return trial

        return measure

    def _mrr_pps(self, trials: Sequence[Trial]) -> float:
        """Return the receive rate of the first trial if it is valid, whole and at the highest rate, else 0.

        A trial that was ended early counts the frames that were still in queues then, in too short a time. A
        rate that the generator limits is not the device's.
        """
        first = trials[0]
        rate_pps = first.receive_rate_pps
        is_highest = first.rate_pps >= self._testbed.maximum_pps * (1 - EXACT)
        is_whole = first.sent >= _WHOLE_SHARE * first.rate_pps * first.duration_s
        is_limited = first.invalid or self._testbed.generator_limit(rate_pps)
        return rate_pps if is_highest and is_whole and not is_limited else 0.0

    def _create_recording_measure(self, accepted: list[Trial], *, deviation: float = EXACT) -> Measure:
        """Return a measure function that appends each of its trials to ``accepted``."""

        def measure(rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
            trial = self._testbed.trials.measure(rate_pps, duration_s, fail_above, deviation=deviation)
            accepted.append(trial)
            return trial

        return measure

    def _timeout_error(
        self,
        error: SearchTimeoutError,
        kind: str,
        goals: Mapping[str, float],
        accepted: Sequence[Trial],
        plan: SearchPlan,
    ) -> SearchTimeoutError:
        """Return the error of a search that timed out, with all results known so far."""
        if not isinstance(error.result, SearchResult):
            return error
        intervals = _intervals(error.result, goals)
        bounds = [
            f"{name.upper()} {each.lower:.0f} to {each.upper:.0f} pps" for name, each in intervals.items()
        ]
        measurement = replace(
            self._measurement(kind, invalid=str(error)),
            intervals=intervals,
            loss_ratios=dict(goals),
            phases=_of_trials(error.result.phases, accepted),
            strategy=plan.strategy,
        )
        return SearchTimeoutError(f"{error}; bounds so far, not confirmed: {', '.join(bounds)}", measurement)

    def _finish_search(
        self, kind: str, intervals: Mapping[str, Interval], doubt: str, plan: SearchPlan
    ) -> Measurement:
        cycles_at: dict[str, Mapping[str, float]] = {}
        for name, interval in intervals.items():
            if not interval.invalid:
                trial = self._collect_during(name, interval.lower, plan.initial_duration_s)
                cycles_at[name] = {} if trial.invalid else self._cycles_per_packet(name, since="during")
        limit = partial(self._testbed.generator_limit, relative_width=plan.relative_width)
        intervals = {
            name: replace(each, invalid=each.invalid or limit(each.lower)) for name, each in intervals.items()
        }
        missing = [interval.invalid for interval in intervals.values()]
        # An interval that was found stays valid if another one was not found.
        invalid = next(filter(None, [doubt, *(missing if all(missing) else ())]), "")
        latency = self._measure_latency(intervals, plan, doubt) if kind == "ndrpdr" else {}
        rate = "pdr" if "pdr" in intervals else next(iter(intervals))
        return replace(
            self._measurement(kind, invalid=invalid),
            intervals=intervals,
            latency=latency,
            cycles_per_packet={} if intervals[rate].invalid else cycles_at[rate],
        )

    def _measure_latency(
        self, intervals: Mapping[str, Interval], plan: SearchPlan, doubt: str
    ) -> dict[str, LoadLatency]:
        """Return the latency below PDR by metric; empty if the generator does not measure it.

        :param doubt: why the search is not valid; empty if it is.
        """
        if not self._testbed.generator.measures_latency:
            return {}
        pdr = intervals["pdr"]
        if reason := doubt or pdr.invalid:
            return dict.fromkeys(LATENCY_LOADS, LoadLatency(0.0, invalid=f"PDR is not valid: {reason}"))
        return {metric: self._latency_at(load * pdr.lower, plan) for metric, load in LATENCY_LOADS.items()}

    def _latency_at(self, rate_pps: float, plan: SearchPlan) -> LoadLatency:
        trial = self._testbed.trials.measure(rate_pps, plan.latency_duration_s)
        if reason := trial.invalid or _latency_doubt(trial, plan.goals["pdr"]):
            return LoadLatency(rate_pps, invalid=reason)
        return LoadLatency(rate_pps, trial.latency)

    def _collect_during(self, where: str, rate_pps: float, duration_s: float) -> Trial:
        """Collect the counters of a trial that gives no result, so that reading them cannot change one."""
        before = self._testbed.counters()
        during: list[Counters] = []
        hook = TrialHook(lambda: during.append(self._testbed.device.counters()), begin=_MIDDLE)
        trial = self._testbed.trials.measure(rate_pps, duration_s, hook=hook)
        self._collect(where, rate_pps, before)
        self._collected[where]["during"] = {"device": during[-1]} if during else {}
        return trial

    def _collect(self, where: str, rate_pps: float, before: Counters) -> None:
        self._collected[where] = {
            "rate_pps": rate_pps,
            "before": before,
            "after": self._testbed.counters(),
        }

    def _cycles_per_packet(self, where: str, *, since: str) -> dict[str, float]:
        """Return the cycles per packet of the parts of the device until a step collected its last counters.

        :param since: ``before`` or ``during``: the reading of the counters that was the last but one.
        """
        collected = self._collected[where]
        if "device" not in collected[since]:
            return {}  # The trial ended before the reading.
        readings = collected[since]["device"], collected["after"]["device"]
        return measurement.plausible_cycles(self._testbed.device.cycles_per_packet(*readings))

    def _device_counters(self) -> list[dict[str, Any]]:
        """Return what the device counted in each trial; empty if it counts no trials."""
        trials = self._testbed.trials
        pairs = zip(trials.trials, trials.device_counters, strict=True)
        return [
            {
                "rate_pps": trial.rate_pps,
                "duration_s": trial.duration_s,
                "received": trial.received,
                "invalid": trial.invalid,
                "device": counters,
            }
            for trial, counters in pairs
            if counters
        ]

    def _measurement(self, kind: str, *, invalid: str) -> Measurement:
        """Write the counters to their file and return a measurement with the common fields."""
        if trials := self._device_counters():
            self._collected["trials"] = trials
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps(self._collected, indent=1))
        return Measurement(
            kind=kind,
            testbed=self._testbed.spec.name,
            frame=self._testbed.traffic.frame.name,
            frame_bytes=self._testbed.traffic.frame.mean_bytes,
            started=self._started,
            finished=datetime.now(UTC),
            trials=tuple(self._testbed.trials.trials),
            counters=str(self._file.relative_to(self._root)),
            versions=self._testbed.versions(),
            invalid=invalid,
            simulated=self._testbed.spec.simulated,
        )


def _intervals(result: SearchResult, goals: Mapping[str, float]) -> dict[str, Interval]:
    return {name: result.interval(ratio) for name, ratio in goals.items()}


def _latency_doubt(trial: Trial, loss_ratio: float) -> str:
    """Return why a valid trial shows no latency: lost frames have none, and often waited the longest."""
    if not passes(trial, loss_ratio):
        return f"{100 * trial.loss_ratio:.3g} % of the frames were lost, more than PDR allows"
    return "" if trial.latency else "the generator measured no latency"


def _conditional_throughput(result: SearchResult, goals: Mapping[str, float]) -> dict[str, float]:
    """Return the conditional throughput of the lower bounds of valid intervals, in pps."""
    return {name: result.conditional_throughput_pps(ratio) for name, ratio in goals.items()}


def _of_trials(phases: Sequence[Phase], accepted: Sequence[Trial]) -> tuple[Phase, ...]:
    """Return the phases with the trials that the testbed returned, which are the recorded ones."""
    following = iter(accepted)
    return tuple(
        replace(phase, steps=tuple(replace(step, trial=next(following)) for step in phase.steps))
        for phase in phases
    )
