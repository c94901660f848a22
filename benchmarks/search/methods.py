"""The compared searches: perftrend's strategies, MLRsearch, and plain bisections.

All of them search for the rates of the same loss ratios within the same limits, and get their
trials from the same recorder, which counts their cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType

from perftrend.errors import SearchTimeoutError
from perftrend.measure import SearchResult, mdr_search
from perftrend.measure.search import Measure
from perftrend.measure.search.mdr import STRATEGIES
from perftrend.measure.search.parameters import Parameters
from perftrend.measure.search.trials import passes
from perftrend.measurement import Interval, Trial

LOSS_RATIOS = (0.0, 0.005)

MLRSEARCH = "MLRsearch"
MLRSEARCH_STRICT = "MLRsearch, exceed 0"


@dataclass(slots=True)
class Recorder:
    """Counts the trials of a search, and their time."""

    measure: Measure
    trials: int = 0
    elapsed_s: float = 0.0

    def __call__(self, rate_pps: float, duration_s: float, fail_above: float | None = None) -> Trial:
        """Measure, and count."""
        trial = self.measure(rate_pps, duration_s, fail_above)
        self.trials += 1
        self.elapsed_s += trial.elapsed_s
        return trial


Method = Callable[[Measure, Parameters], tuple[Interval | None, ...]]
"""``method(measure, parameters)``: an interval by loss ratio; None: not searched for."""


def simulated_parameters(final_duration_s: float, relative_width: float) -> Parameters:
    """Return the parameters of searches on a simulated device."""
    return Parameters(
        minimum_pps=20e3,
        maximum_pps=29.76e6,
        loss_ratios=LOSS_RATIOS,
        initial_duration_s=1.0,
        final_duration_s=final_duration_s,
        relative_width=relative_width,
        intermediate_phases=2,
        timeout_s=None,
    )


def methods() -> Mapping[str, Method]:
    """Return all searches by name, perftrend's first."""
    return {
        **{perftrend_method(strategy): _perftrend(strategy) for strategy in STRATEGIES},
        MLRSEARCH: _mlrsearch(exceed_ratio=0.5),
        MLRSEARCH_STRICT: _mlrsearch(exceed_ratio=0.0),
        **BISECTIONS,
    }


def perftrend_method(strategy: str) -> str:
    """Return the name of the method for a strategy of perftrend."""
    return f"perftrend {strategy}"


def perftrend_search(measure: Measure, parameters: Parameters, strategy: str) -> SearchResult:
    """Search by a strategy of perftrend; a search that timed out returns its result up to then."""
    try:
        return mdr_search(measure, **asdict(parameters), strategy=strategy)
    except SearchTimeoutError as error:
        if isinstance(error.result, SearchResult):
            return error.result
        raise


def _perftrend(strategy: str) -> Method:
    def search(measure: Measure, parameters: Parameters) -> tuple[Interval, ...]:
        found = perftrend_search(measure, parameters, strategy).intervals
        nothing = Interval(parameters.minimum_pps, parameters.maximum_pps, "no bound was found")
        return found or tuple(nothing for _ in parameters.loss_ratios)

    return search


def _mlrsearch(*, exceed_ratio: float) -> Method:
    def search(measure: Measure, parameters: Parameters) -> tuple[Interval, ...]:
        from benchmarks.search import mlrsearch  # noqa: PLC0415 - slow, and other methods do not need it

        return mlrsearch.search(measure, parameters, exceed_ratio=exceed_ratio)

    return search


@dataclass(slots=True)
class _Bisection:
    """Halves intervals by trials of one duration; each trial counts for all loss ratios."""

    measure: Measure
    parameters: Parameters
    fail_above: float
    trials: list[Trial] = field(default_factory=list)

    def interval(self, loss_ratio: float) -> Interval:
        if not self.trials:
            self._try(self.parameters.maximum_pps)
        while True:
            lower, upper = self._bounds(loss_ratio)
            if upper - lower <= self.parameters.relative_width * upper:
                break
            self._try((lower + upper) / 2.0)
        if lower > self.parameters.minimum_pps:
            return Interval(lower, upper)
        self._try(self.parameters.minimum_pps)
        passed = passes(self.trials[-1], loss_ratio)
        return Interval(lower, upper, "" if passed else "loss at the minimum rate")

    def _try(self, rate_pps: float) -> None:
        self.trials.append(self.measure(rate_pps, self.parameters.final_duration_s, self.fail_above))

    def _bounds(self, loss_ratio: float) -> tuple[float, float]:
        failed = [trial.rate_pps for trial in self.trials if not passes(trial, loss_ratio)]
        upper = min(failed, default=self.parameters.maximum_pps)
        passed = [trial.rate_pps for trial in self.trials if passes(trial, loss_ratio)]
        if not failed and passed:
            return self.parameters.maximum_pps, self.parameters.maximum_pps
        return max((rate for rate in passed if rate < upper), default=self.parameters.minimum_pps), upper


def _ndr_bisection(measure: Measure, parameters: Parameters) -> tuple[Interval | None, ...]:
    return (
        _Bisection(measure, parameters, parameters.loss_ratios[0]).interval(parameters.loss_ratios[0]),
        None,
    )


def _two_bisections(measure: Measure, parameters: Parameters) -> tuple[Interval | None, ...]:
    return tuple(_Bisection(measure, parameters, ratio).interval(ratio) for ratio in parameters.loss_ratios)


def _joint_bisection(measure: Measure, parameters: Parameters) -> tuple[Interval | None, ...]:
    bisection = _Bisection(measure, parameters, max(parameters.loss_ratios))
    return tuple(bisection.interval(ratio) for ratio in parameters.loss_ratios)


BISECTIONS: Mapping[str, Method] = MappingProxyType(
    {
        "NDR bisection": _ndr_bisection,
        "NDR, PDR bisection": _two_bisections,
        "joint bisection": _joint_bisection,
    }
)
