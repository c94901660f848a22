"""The searches that are compared: perftrend's strategies, MLRsearch, and plain bisections.

All of them look for the rates of the same loss ratios within the same limits, and get their
trials from the same recorder, which counts what they cost.

MLRsearch has no way to end a trial early, so its trials run to their end. Each bound takes one
trial of the final duration, as in perftrend. With the library's default exceed ratio of 0.5 an
upper bound, too, takes a trial of that duration; with an exceed ratio of 0 a shorter one that
fails is enough for it. Both are measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from MLRsearch import AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal

from perftrend.errors import SearchTimeoutError
from perftrend.measure import SearchResult, mdr_search
from perftrend.measure.search import Measure
from perftrend.measure.search.mdr import STRATEGIES
from perftrend.measure.search.trials import passes
from perftrend.model import Interval, Trial

MINIMUM_PPS = 20e3
MAXIMUM_PPS = 29.76e6
LOSS_RATIOS = (0.0, 0.005)
INITIAL_DURATION_S = 1.0

MLRSEARCH = "MLRsearch"
MLRSEARCH_STRICT = "MLRsearch, exceed 0"
_ENDLESS_S = 1e9


@dataclass(slots=True)
class Recorder:
    """Counts the trials of a search, and the time that they take."""

    measure: Measure
    trials: int = 0
    elapsed_s: float = 0.0

    def __call__(self, rate_pps: float, duration_s: float, fail_above: float | None = None) -> Trial:
        """Measure, and count."""
        trial = self.measure(rate_pps, duration_s, fail_above)
        self.trials += 1
        self.elapsed_s += trial.elapsed_s
        return trial


Method = Callable[[Measure, float, float], tuple[Interval | None, ...]]
"""``method(measure, final_duration_s, relative_width)``: intervals by loss ratio; None: not looked for."""


def methods() -> Mapping[str, Method]:
    """Name all searches, perftrend's first."""
    return {
        **{perftrend_method(strategy): _perftrend(strategy) for strategy in STRATEGIES},
        MLRSEARCH: _mlrsearch(exceed_ratio=0.5),
        MLRSEARCH_STRICT: _mlrsearch(exceed_ratio=0.0),
        **BISECTIONS,
    }


def perftrend_method(strategy: str) -> str:
    """Name the method that is a strategy of perftrend."""
    return f"perftrend {strategy}"


def _perftrend(strategy: str) -> Method:
    def search(measure: Measure, final_s: float, width: float) -> tuple[Interval, ...]:
        try:
            return mdr_search(
                measure,
                minimum_pps=MINIMUM_PPS,
                maximum_pps=MAXIMUM_PPS,
                loss_ratios=LOSS_RATIOS,
                initial_duration_s=INITIAL_DURATION_S,
                final_duration_s=final_s,
                relative_width=width,
                strategy=strategy,
            ).intervals
        except SearchTimeoutError as error:
            if isinstance(error.result, SearchResult) and error.result.intervals:
                return error.result.intervals
            return tuple(Interval(MINIMUM_PPS, MAXIMUM_PPS, str(error)) for _ in LOSS_RATIOS)

    return search


class _Measurer(AbstractMeasurer):  # type: ignore[misc] # the library ships no types
    def __init__(self, measure: Measure) -> None:
        self._measure = measure

    def measure(self, intended_duration: float, intended_load: float) -> MeasurementResult:
        trial = self._measure(intended_load, intended_duration, None)
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=trial.sent,
            forwarding_count=trial.received,
        )


def _mlrsearch(*, exceed_ratio: float) -> Method:
    def search(measure: Measure, final_s: float, width: float) -> tuple[Interval, ...]:
        goals = [
            SearchGoal(
                loss_ratio=loss_ratio,
                exceed_ratio=exceed_ratio,
                relative_width=width,
                initial_trial_duration=INITIAL_DURATION_S,
                final_trial_duration=final_s,
                duration_sum=final_s,
                preceding_targets=2,
                expansion_coefficient=2,
                fail_fast=False,
            )
            for loss_ratio in LOSS_RATIOS
        ]
        config = Config(
            goals=goals,
            min_load=MINIMUM_PPS,
            max_load=MAXIMUM_PPS,
            search_duration_max=_ENDLESS_S,
            warmup_duration=None,
        )
        results = MultipleLossRatioSearch(config=config).search(_Measurer(measure))
        return tuple(
            _interval(results[goal].relevant_lower_bound, results[goal].relevant_upper_bound)
            for goal in goals
        )

    return search


def _interval(lower: float | None, upper: float | None) -> Interval:
    return Interval(
        MINIMUM_PPS if lower is None else float(lower),
        MAXIMUM_PPS if upper is None else float(upper),
        "no lower bound" if lower is None else "",
    )


@dataclass(slots=True)
class _Bisection:
    """Halves intervals by trials of one duration; each trial speaks for all loss ratios."""

    measure: Measure
    duration_s: float
    relative_width: float
    fail_above: float
    trials: list[Trial] = field(default_factory=list)

    def interval(self, loss_ratio: float) -> Interval:
        if not self.trials:
            self._try(MAXIMUM_PPS)
        while True:
            lower, upper = self._bounds(loss_ratio)
            if upper - lower <= self.relative_width * upper:
                break
            self._try((lower + upper) / 2.0)
        if lower > MINIMUM_PPS:
            return Interval(lower, upper)
        self._try(MINIMUM_PPS)
        passed = passes(self.trials[-1], loss_ratio)
        return Interval(lower, upper, "" if passed else "loss at the minimum rate")

    def _try(self, rate_pps: float) -> None:
        self.trials.append(self.measure(rate_pps, self.duration_s, self.fail_above))

    def _bounds(self, loss_ratio: float) -> tuple[float, float]:
        failed = [trial.rate_pps for trial in self.trials if not passes(trial, loss_ratio)]
        upper = min(failed, default=MAXIMUM_PPS)
        passed = [trial.rate_pps for trial in self.trials if passes(trial, loss_ratio)]
        if not failed and passed:
            return MAXIMUM_PPS, MAXIMUM_PPS
        return max((rate for rate in passed if rate < upper), default=MINIMUM_PPS), upper


def _ndr_bisection(measure: Measure, final_s: float, width: float) -> tuple[Interval | None, ...]:
    return (_Bisection(measure, final_s, width, LOSS_RATIOS[0]).interval(LOSS_RATIOS[0]), None)


def _two_bisections(measure: Measure, final_s: float, width: float) -> tuple[Interval | None, ...]:
    return tuple(_Bisection(measure, final_s, width, ratio).interval(ratio) for ratio in LOSS_RATIOS)


def _joint_bisection(measure: Measure, final_s: float, width: float) -> tuple[Interval | None, ...]:
    bisection = _Bisection(measure, final_s, width, max(LOSS_RATIOS))
    return tuple(bisection.interval(ratio) for ratio in LOSS_RATIOS)


BISECTIONS: Mapping[str, Method] = MappingProxyType(
    {
        "NDR bisection": _ndr_bisection,
        "NDR, PDR bisection": _two_bisections,
        "joint bisection": _joint_bisection,
    }
)
