"""MLRsearch with the limits and the recorder of the other searches.

MLRsearch cannot end a trial early, so its trials run to their end. Each bound needs one
trial of the final duration, as in perftrend. With the library's default exceed ratio of 0.5 an
upper bound, too, needs a trial of that duration; with an exceed ratio of 0 a shorter one that
fails is enough for it. Both are measured.
"""

from __future__ import annotations

from MLRsearch import AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal

from perftrend.measure.search import Measure
from perftrend.measure.search.parameters import Parameters
from perftrend.measurement import Interval

_ENDLESS_S = 1e9


def search(measure: Measure, parameters: Parameters, *, exceed_ratio: float) -> tuple[Interval, ...]:
    """Return an interval for each loss ratio, in their order."""
    goals = [
        SearchGoal(
            loss_ratio=loss_ratio,
            exceed_ratio=exceed_ratio,
            relative_width=parameters.relative_width,
            initial_trial_duration=parameters.initial_duration_s,
            final_trial_duration=parameters.final_duration_s,
            duration_sum=parameters.final_duration_s,
            preceding_targets=2,
            expansion_coefficient=2,
            fail_fast=False,
        )
        for loss_ratio in parameters.loss_ratios
    ]
    config = Config(
        goals=goals,
        min_load=parameters.minimum_pps,
        max_load=parameters.maximum_pps,
        search_duration_max=_ENDLESS_S,
        warmup_duration=None,
    )
    results = MultipleLossRatioSearch(config=config).search(_Measurer(measure))
    return tuple(
        _interval(results[goal].relevant_lower_bound, results[goal].relevant_upper_bound, parameters)
        for goal in goals
    )


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


def _interval(lower: float | None, upper: float | None, parameters: Parameters) -> Interval:
    return Interval(
        parameters.minimum_pps if lower is None else float(lower),
        parameters.maximum_pps if upper is None else float(upper),
        "no lower bound" if lower is None else "",
    )
