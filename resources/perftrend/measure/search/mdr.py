"""MDR search: several drop rates, each with its own loss ratio, in one search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from perftrend.errors import SettingsError, nearest
from perftrend.measure.search import mdr_classic, predictive
from perftrend.measure.search.parameters import Parameters, require
from perftrend.measure.search.record import OnStep
from perftrend.measure.search.result import SearchResult
from perftrend.measure.search.trials import Measure

STRATEGIES: Mapping[str, Callable[[Measure, Parameters, OnStep | None], SearchResult]] = MappingProxyType(
    {"mdr": mdr_classic.search, "predictive": predictive.search}
)
"""Search strategies by name. They give the same guarantees and differ in the number of trials."""

DEFAULT_STRATEGY = "predictive"


def mdr_search(
    measure: Measure,
    *,
    minimum_pps: float,
    maximum_pps: float,
    loss_ratios: Sequence[float] = (0.0, 0.005),
    initial_duration_s: float = 1.0,
    final_duration_s: float = 30.0,
    relative_width: float = 0.005,
    intermediate_phases: int = 2,
    timeout_s: float | None = None,
    trials_per_bound: int = 1,
    exceed_ratio: float = 0.0,
    strategy: str = DEFAULT_STRATEGY,
    on_step: OnStep | None = None,
) -> SearchResult:
    """Find the highest rate that meets each loss ratio: NDR for 0, PDR for a tolerated loss.

    An interval of the result without ``invalid`` is at most ``relative_width`` wide, relative to
    its upper bound; its lower bound passed and its upper bound failed (or is the maximum rate),
    both in trials of the final duration. The search terminates for every device.

    :param measure: ``measure(rate_pps, duration_s, fail_above)`` sends and counts; see
        ``perftrend.measure.search.Measure``. An invalid trial is used as well, and makes the result invalid.
    :param minimum_pps: lowest rate, above 0; too much loss there makes the interval invalid.
    :param maximum_pps: highest rate, of the link or of the generator.
    :param loss_ratios: from 0 to below 1, each once, in ascending order.
    :param initial_duration_s: duration of the trials of the initial and the first intermediate phase.
    :param final_duration_s: duration of the trials that bound the result, at least the initial duration.
    :param relative_width: from 1e-6 to below 1.
    :param intermediate_phases: 0 or more; 2 according to the experience in the source.
    :param timeout_s: seconds of trials after which no further trial starts; None for no limit.
    :param trials_per_bound: trials of the final duration that decide whether a rate passes.
    :param exceed_ratio: fraction of them that may fail at a rate that passes, from 0 to below 1. With 0, one
        failing trial makes a rate fail; with 0.5, more than half of them have to fail.
    :param strategy: a name of ``STRATEGIES``; ``predictive`` takes the least time, ``mdr`` is the algorithm
        of the CSIT method, which decides by the latest trial at each rate.
    :param on_step: called after each trial with the progress of the search, unless it is None.
    :returns: the intervals, and every trial by phase.
    :raises SettingsError: naming the invalid parameter.
    :raises SearchTimeoutError: if more trials are needed when the time is used up; its ``result`` contains
        the bounds known so far, with every interval that was not found marked invalid.

    Source: "MDR Search".
    """
    if strategy not in STRATEGIES:
        raise SettingsError(f"search strategy {strategy!r} is unknown{nearest(strategy, STRATEGIES)}")
    require(
        strategy != "mdr" or trials_per_bound == 1,
        "trials_per_bound",
        trials_per_bound,
        "1, because strategy mdr decides by one trial, or use strategy predictive",
    )
    parameters = Parameters(
        minimum_pps=minimum_pps,
        maximum_pps=maximum_pps,
        loss_ratios=tuple(loss_ratios),
        initial_duration_s=initial_duration_s,
        final_duration_s=final_duration_s,
        relative_width=relative_width,
        intermediate_phases=intermediate_phases,
        timeout_s=timeout_s,
        trials_per_bound=trials_per_bound,
        exceed_ratio=exceed_ratio,
    )
    return STRATEGIES[strategy](measure, parameters, on_step)
