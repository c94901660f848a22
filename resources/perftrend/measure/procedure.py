"""What a performance test does on an open testbed: MRR, NDR and PDR, with the counters at each.

The device is started and the traffic chosen before; what comes back is one
:class:`~perftrend.model.Measurement`, which says itself when it cannot be trusted.

Source: "Continuous Performance Trending and Analysis", section Performance Trending.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from perftrend.errors import SearchTimeoutError
from perftrend.measure.interfaces import Counters
from perftrend.measure.search import OnStep, SearchResult, binary_search, mdr_search, measure_mrr
from perftrend.measure.testbed import Testbed
from perftrend.model import Interval, Measurement, Phase, Trial

Say = Callable[[str], None]

_LOWEST_SHARE = 0.05
"""Share of the MRR where a binary search begins, unless the testbed's lowest rate is higher."""


@dataclass(frozen=True, slots=True)
class MrrPlan:
    """How MRR is measured."""

    duration_s: float
    multiplicity: int
    starts: int


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """How NDR and PDR are searched."""

    initial_duration_s: float
    final_duration_s: float
    relative_width: float
    loss_ratio: float
    """What PDR allows to be lost; NDR allows nothing."""
    minimum_pps: float
    intermediate_phases: int
    timeout_s: float | None


@dataclass(frozen=True, slots=True)
class _Way:
    """What a search was for, by name, and the way that it took."""

    loss_ratios: Mapping[str, float]
    phases: tuple[Phase, ...] = ()


class Procedure:
    """One test: measures on an open testbed and collects counters on the way.

    :param counters_file: receives the counters as JSON, keyed by where they were collected.
    :param root: what the measurement names the counters' file relative to.
    """

    def __init__(self, testbed: Testbed, counters_file: Path, root: Path) -> None:
        self._testbed = testbed
        self._file = counters_file
        self._root = root
        self._collected: dict[str, Any] = {}
        self._started = datetime.now(UTC)

    def mrr(self, plan: MrrPlan) -> Measurement:
        """Send at the highest rate, whatever is lost; every trial gives a sample."""
        before = self._testbed.counters()
        result = measure_mrr(
            self._testbed.trials.measure,
            rate_pps=self._testbed.maximum_pps,
            duration_s=plan.duration_s,
            multiplicity=plan.multiplicity,
            starts=min(plan.starts, plan.multiplicity),
            restart=self._testbed.restart_device,
        )
        self._collect("mrr", self._testbed.maximum_pps, before)
        limit = self._testbed.generator_limit(sum(result.samples) / len(result.samples))
        return self._measurement("mrr", samples=result.samples, invalid=result.invalid or limit)

    def ndr_and_pdr(self, plan: SearchPlan, *, on_step: OnStep | None = None) -> Measurement:
        """Search for NDR and PDR at once by MDR search.

        :param on_step: is told after each trial how far the search has come.
        :raises SearchTimeoutError: if that takes longer than it may; its ``result`` is a
            measurement with every trial and what was known by then, which is not valid.
        """
        goals = {"ndr": 0.0, "pdr": plan.loss_ratio}
        accepted: list[Trial] = []

        def measure(rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
            accepted.append(self._testbed.trials.measure(rate_pps, duration_s, fail_above))
            return accepted[-1]

        try:
            result = mdr_search(
                measure,
                minimum_pps=plan.minimum_pps,
                maximum_pps=self._testbed.maximum_pps,
                loss_ratios=tuple(goals.values()),
                initial_duration_s=plan.initial_duration_s,
                final_duration_s=plan.final_duration_s,
                relative_width=plan.relative_width,
                intermediate_phases=plan.intermediate_phases,
                timeout_s=plan.timeout_s,
                on_step=on_step,
            )
        except SearchTimeoutError as error:
            raise self._unfinished(error, goals, accepted) from None
        way = _Way(goals, _of_trials(result.phases, accepted))
        return self._searched("ndrpdr", _intervals(result, goals), result.invalid, plan, way)

    def binary(self, metric: str, plan: SearchPlan) -> Measurement:
        """Search for one rate, ``ndr`` or ``pdr``, by binary search below the MRR.

        The MRR bounds it: nothing that comes back can exceed what the device forwards at most.
        """
        first = self._testbed.trials.measure(self._testbed.maximum_pps, plan.initial_duration_s)
        loss_ratio = plan.loss_ratio if metric == "pdr" else 0.0
        highest = max(first.receive_rate_pps, 2 * plan.minimum_pps)
        interval = binary_search(
            self._testbed.trials.measure,
            lower_pps=max(plan.minimum_pps, _LOWEST_SHARE * highest),
            upper_pps=highest,
            loss_ratio=loss_ratio,
            duration_s=plan.final_duration_s,
            relative_width=plan.relative_width,
            maximum_pps=self._testbed.maximum_pps,
        )
        return self._searched("binary", {metric: interval}, first.invalid, plan, _Way({metric: loss_ratio}))

    def _unfinished(
        self, error: SearchTimeoutError, goals: Mapping[str, float], accepted: Sequence[Trial]
    ) -> SearchTimeoutError:
        """Return the error of a search that took too long, with all that is known."""
        if not isinstance(error.result, SearchResult):
            return error
        intervals = _intervals(error.result, goals)
        bounds = [
            f"{name.upper()} {each.lower:.0f} to {each.upper:.0f} pps" for name, each in intervals.items()
        ]
        way = _Way(goals, _of_trials(error.result.phases, accepted))
        measurement = self._measurement("ndrpdr", invalid=str(error), intervals=intervals, way=way)
        return SearchTimeoutError(f"{error}; known by then, and not sure: {', '.join(bounds)}", measurement)

    def _searched(
        self, kind: str, intervals: Mapping[str, Interval], doubt: str, plan: SearchPlan, way: _Way
    ) -> Measurement:
        for name, interval in intervals.items():
            if not interval.invalid:
                before = self._testbed.counters()
                self._testbed.trials.measure(interval.lower, plan.initial_duration_s)
                self._collect(name, interval.lower, before)
        reasons = [doubt, *(interval.invalid for interval in intervals.values())]
        reasons += [self._testbed.generator_limit(interval.lower) for interval in intervals.values()]
        invalid = next(filter(None, reasons), "")
        return self._measurement(kind, intervals=intervals, invalid=invalid, way=way)

    def _collect(self, where: str, rate_pps: float, before: Counters) -> None:
        self._collected[where] = {
            "rate_pps": rate_pps,
            "before": before,
            "after": self._testbed.counters(),
        }

    def _measurement(
        self,
        kind: str,
        *,
        invalid: str,
        samples: Sequence[float] = (),
        intervals: Mapping[str, Interval] | None = None,
        way: _Way | None = None,
    ) -> Measurement:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps(self._collected, indent=1))
        trials: tuple[Trial, ...] = tuple(self._testbed.trials.trials)
        return Measurement(
            kind=kind,
            testbed=self._testbed.spec.name,
            frame=self._testbed.profile.name,
            frame_bytes=self._testbed.profile.mean_bytes,
            started=self._started,
            finished=datetime.now(UTC),
            samples=tuple(samples),
            intervals=dict(intervals or {}),
            trials=trials,
            loss_ratios=dict(way.loss_ratios) if way else {},
            phases=way.phases if way else (),
            counters=str(self._file.relative_to(self._root)),
            versions=self._testbed.versions(),
            invalid=invalid,
            simulated=self._testbed.spec.simulated,
        )


def _intervals(result: SearchResult, goals: Mapping[str, float]) -> dict[str, Interval]:
    return {name: result.interval(ratio) for name, ratio in goals.items()}


def _of_trials(phases: Sequence[Phase], accepted: Sequence[Trial]) -> tuple[Phase, ...]:
    """Return the phases with their trials as the generator gave them: those are the recorded ones."""
    following = iter(accepted)
    return tuple(
        replace(phase, steps=tuple(replace(step, trial=next(following)) for step in phase.steps))
        for phase in phases
    )
