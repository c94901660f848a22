"""What a performance test does on an open testbed: MRR, NDR and PDR, with the counters at each.

The device is started and the traffic chosen before; what comes back is one
:class:`~perftrend.model.Measurement`, which says itself when it cannot be trusted.

Source: "Continuous Performance Trending and Analysis", section Performance Trending.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from perftrend.errors import SearchTimeoutError
from perftrend.measure.interfaces import Counters
from perftrend.measure.search import SearchResult, binary_search, mdr_search, measure_mrr
from perftrend.measure.testbed import Testbed
from perftrend.model import Interval, Measurement, Trial

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

    def ndr_and_pdr(self, plan: SearchPlan) -> Measurement:
        """Search for NDR and PDR at once by MDR search.

        :raises SearchTimeoutError: if that takes longer than it may; with what was known by then.
        """
        goals = {"ndr": 0.0, "pdr": plan.loss_ratio}
        try:
            result = mdr_search(
                self._testbed.trials.measure,
                minimum_pps=plan.minimum_pps,
                maximum_pps=self._testbed.maximum_pps,
                loss_ratios=tuple(goals.values()),
                initial_duration_s=plan.initial_duration_s,
                final_duration_s=plan.final_duration_s,
                relative_width=plan.relative_width,
                intermediate_phases=plan.intermediate_phases,
                timeout_s=plan.timeout_s,
            )
        except SearchTimeoutError as error:
            raise SearchTimeoutError(f"{error}; {_known(error.result, goals)}", error.result) from None
        intervals = {name: result.interval(ratio) for name, ratio in goals.items()}
        return self._searched("ndrpdr", intervals, result.invalid, plan)

    def binary(self, metric: str, plan: SearchPlan) -> Measurement:
        """Search for one rate, ``ndr`` or ``pdr``, by binary search below the MRR.

        The MRR bounds it: nothing that comes back can exceed what the device forwards at most.
        """
        first = self._testbed.trials.measure(self._testbed.maximum_pps, plan.initial_duration_s)
        highest = max(first.receive_rate_pps, 2 * plan.minimum_pps)
        interval = binary_search(
            self._testbed.trials.measure,
            lower_pps=max(plan.minimum_pps, _LOWEST_SHARE * highest),
            upper_pps=highest,
            loss_ratio=plan.loss_ratio if metric == "pdr" else 0.0,
            duration_s=plan.final_duration_s,
            relative_width=plan.relative_width,
            maximum_pps=self._testbed.maximum_pps,
        )
        return self._searched("binary", {metric: interval}, first.invalid, plan)

    def _searched(
        self, kind: str, intervals: Mapping[str, Interval], doubt: str, plan: SearchPlan
    ) -> Measurement:
        for name, interval in intervals.items():
            if not interval.invalid:
                before = self._testbed.counters()
                self._testbed.trials.measure(interval.lower, plan.initial_duration_s)
                self._collect(name, interval.lower, before)
        reasons = [doubt, *(interval.invalid for interval in intervals.values())]
        reasons += [self._testbed.generator_limit(interval.lower) for interval in intervals.values()]
        return self._measurement(kind, intervals=intervals, invalid=next(filter(None, reasons), ""))

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
            counters=str(self._file.relative_to(self._root)),
            versions=self._testbed.versions(),
            invalid=invalid,
            simulated=self._testbed.spec.simulated,
        )


def _known(result: object, goals: Mapping[str, float]) -> str:
    """Say what an unfinished search knew."""
    if not isinstance(result, SearchResult):
        return "nothing was known by then"
    intervals = {name: result.interval(ratio) for name, ratio in goals.items()}
    bounds = [f"{name.upper()} {each.lower:.0f} to {each.upper:.0f} pps" for name, each in intervals.items()]
    return f"known by then, and not sure: {', '.join(bounds)}"
