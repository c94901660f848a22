"""The verdict on each test in the newest run, with the sentence that explains it to users.

The outcome is Normal, Regression, Progression, or no result.

By description length (the default) the newest run is a Regression or a Progression if the last
group of the partition is new: it starts at the newest run, or it starts earlier but no earlier
analysis has reported it (the change "appears late"). Otherwise, the sequential detector may
have seen a smaller change of the newest runs. The reports of earlier analyses are found by
repeating them without the newer samples, so that no state has to be stored and each change is
reported once. By the three-sigma rule the newest run is compared with the normal range of its window.

Source: "Trend Analysis", sections Anomalies in graphs and Common Patterns; "Continuous
Performance Trending and Analysis", section Anomaly Detection.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from perftrend import errors
from perftrend.analysis.change_details import detail_steps, detail_suspected_change, is_distinct_from
from perftrend.analysis.change_evidence import ChangeShape
from perftrend.analysis.compliance import WEEK_RUNS, compliance
from perftrend.analysis.description import formula_named
from perftrend.analysis.mdl import DEFAULT_FORMULA
from perftrend.analysis.reportable_changes import (
    PERHAPS_OUTLIER,
    WATCHFUL,
    Findings,
    ReportingRule,
    as_change,
    bad_runs,
    counts,
    direction,
    findings,
    has_been_reported,
    sight,
)
from perftrend.analysis.sequential import QUIET, DetectorState, SuspectedChange, Vigilance
from perftrend.analysis.significance import DEFAULT_SIGNIFICANCE, Significance, sample_count
from perftrend.analysis.trimmed_statistics import (
    DEFAULT_WINDOW,
    MINIMUM_VALUES,
    SIGMAS,
    MovingStatistics,
    moving_statistics,
)
from perftrend.model import (
    Better,
    Change,
    Outcome,
    Run,
    Series,
    Status,
    TraceKey,
    Verdict,
)

SUSPECTED_ENDING = "; suspected: the next runs decide"
"""The ending of the sentence on a newest run that is off."""

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")

FIRST_RUN = "the first run: nothing to compare with yet"


class Method(StrEnum):
    """The method that evaluates the newest run."""

    MDL = "mdl"
    THREE_SIGMA = "three-sigma"


@dataclass(frozen=True, slots=True)
class Criteria:
    """The parameters of the evaluation of series.

    :raises SettingsError: if a value has no meaning.
    """

    method: Method = Method.MDL
    """A :class:`Method` or its name."""
    window: int = DEFAULT_WINDOW
    """N of the moving statistics, in runs."""
    formula: str = DEFAULT_FORMULA
    outliers: bool = True
    """Whether the partition separates single bad runs from the groups."""
    trials: bool = False
    """Whether the partition uses all trials of each run instead of their average; not with ``outliers``."""
    week_runs: int = WEEK_RUNS
    """Runs in a week, 5 if the topology has one testbed."""
    new_runs: int = 1
    """How many of the newest runs no earlier analysis has seen."""
    significance: Significance = DEFAULT_SIGNIFICANCE
    vigilance: Vigilance = WATCHFUL

    def __post_init__(self) -> None:
        known = [method.value for method in Method]
        if self.method not in known:
            hint = errors.nearest(self.method, known)
            raise errors.SettingsError(f"no method of analysis is named {self.method!r}{hint}")
        formula_named(self.formula)
        least = {"window": MINIMUM_VALUES, "week_runs": 1, "new_runs": 1}
        for name, minimum in least.items():
            if getattr(self, name) < minimum:
                raise errors.SettingsError(f"{name} is {getattr(self, name)}; give at least {minimum}")

    def rule(self, better: Better) -> ReportingRule:
        """Return the parameters of all analyses of a trace."""
        return ReportingRule(better, self.formula, self.outliers, self.significance, self.vigilance)

    def with_minimum_change(self, minimum_change: float | None) -> Criteria:
        """Return the criteria of a test with its own minimum change; None for the same."""
        if minimum_change is None:
            return self
        return replace(self, significance=replace(self.significance, minimum_change=minimum_change))


DEFAULT_CRITERIA = Criteria()


class Mapper(Protocol):
    """The contract of :func:`map`, which may compute elsewhere what it yields."""

    def __call__(self, call: Callable[[_Item], _Found], items: Sequence[_Item], /) -> Iterator[_Found]:
        """Yield the result of the call for each item, in the order of the items."""


def evaluate(series: Series, *, run: Run, criteria: Criteria = DEFAULT_CRITERIA) -> Verdict:
    """Analyse one series and return the verdict on its newest run.

    :param series: the trace, its last entry that of ``run`` unless the run has no result.
    :param run: the newest run.
    :param criteria: the parameters of the evaluation.
    :returns: groups, statistics and compliance metrics of all samples, whatever the outcome.
    """
    moving = moving_statistics(series.samples, window=criteria.window)
    rule = replace(criteria.rule(series.better), trials=series.trials if criteria.trials else None)
    found = findings(series.samples, rule)
    if criteria.method == Method.MDL:
        sighting = sight(series.samples, found, rule)
        shown = _by_groups(series, found, sighting, rule)
    else:
        sighting = QUIET
        shown = _ShownChanges(_departures(series, moving))
    if not series.runs or _identity(series.runs[-1]) != _identity(run):
        outcome, reason = Outcome.MISSING, f"no result in {run.name}, though the test was expected"
    elif absent := _without_value(series):
        outcome, reason = absent
    elif criteria.method == Method.MDL:
        outcome, reason = newest_outcome(series, found, sighting, rule, new_runs=criteria.new_runs)
    else:
        outcome, reason = _by_range(series, moving)
    metrics = compliance(
        found.partition,
        found.values,
        times=[each.started for each in series.runs],
        better=series.better,
        week_runs=criteria.week_runs,
    )
    return Verdict(
        series=series,
        outcome=outcome,
        reason=reason,
        groups=found.partition.groups,
        changes=shown.changes,
        vanished=shown.vanished,
        suspected=shown.suspected,
        bad_runs=shown.bad_runs,
        trend=metrics.trend,
        runs=metrics.runs,
        long_term_change=metrics.long_term_change,
        moving_median=moving.moving_median,
        trimmed_average=moving.trimmed_average,
        trimmed_deviation=moving.trimmed_deviation,
        outliers=moving.outliers,
    )


def evaluate_all(
    series: Iterable[Series],
    *,
    run: Run,
    expected: Collection[TraceKey] | None = None,
    criteria: Criteria = DEFAULT_CRITERIA,
    minimum_changes: Mapping[TraceKey, float] = MappingProxyType({}),
    mapped: Mapper = map,
) -> tuple[Verdict, ...]:
    """Analyse every series that belongs to a run; include those that have no result in it.

    :param series: the traces of the run's testbed, with their histories.
    :param run: the newest run.
    :param expected: the traces that the run should have; one that it does not have is missing. None
        for the traces of the job's previous run.
    :param criteria: the parameters of the evaluation.
    :param minimum_changes: the relative size from which on a change counts, if it differs from the
        criteria.
    :param mapped: evaluates the series, here or in other processes.
    :returns: one verdict for each trace that the run has or should have, in the order of the
        series, expected traces that no run ever had at the end.
    """
    known = list(series)
    wanted = previous_traces(known, run) if expected is None else set(expected)
    present = [
        one for one in known if one.key in wanted or (one.runs and _identity(one.runs[-1]) == _identity(run))
    ]
    strangers = sorted(wanted - {one.key for one in known}, key=str)
    present += [Series(key, "", Better.HIGHER, (), np.empty(0)) for key in strangers]
    questions = [
        _Question(
            # The other results are only needed for their trials, and take long to send to another process.
            one if criteria.trials else replace(one, results=one.results[-1:]),
            run,
            criteria.with_minimum_change(minimum_changes.get(one.key)),
        )
        for one in present
    ]
    verdicts = mapped(_answer, questions)
    return tuple(replace(verdict, series=one) for one, verdict in zip(present, verdicts, strict=True))


class _Question(NamedTuple):
    """The arguments of :func:`evaluate`."""

    series: Series
    run: Run
    criteria: Criteria


def _answer(question: _Question) -> Verdict:
    return evaluate(question.series, run=question.run, criteria=question.criteria)


def newest_outcome(
    series: Series, found: Findings, sighting: SuspectedChange, rule: ReportingRule, *, new_runs: int = 1
) -> tuple[Outcome, str]:
    """Return the outcome of the newest run, and why: by the last step of the partition, else by a sighting.

    :param series: a trace whose newest run has a value.
    :param found: the findings of its partition.
    :param sighting: the result of the sequential detector.
    :param new_runs: how many of the newest runs no earlier analysis has seen.
    """
    doubt = ""
    if found.steps and found.steps[-1].position == found.partition.groups[-1].start:
        newest, doubt = found.steps[-1], found.doubts[-1]
        if not doubt and not has_been_reported(series.samples, newest, rule=rule, new_runs=new_runs):
            return Outcome(newest.direction.value), _describe_step(series, found)
    seen = as_change(sighting)
    explanation = _describe_sighting(series, found, sighting) if seen else ""
    if (
        seen
        and counts(sighting, rule.significance)
        and not has_been_reported(series.samples, seen, rule=rule, sighted=True, new_runs=new_runs)
    ):
        return Outcome(seen.direction.value), explanation
    suspected = (
        seen is not None and sighting.state is DetectorState.SUSPECTED and is_distinct_from(seen, found.steps)
    )
    ending = SUSPECTED_ENDING if suspected else ""
    if doubt:
        return Outcome.NORMAL, _describe_step(series, found, doubt=f", {doubt}") + ending
    if sighting.state is DetectorState.CHANGED and not counts(sighting, rule.significance):
        return Outcome.NORMAL, f"{explanation}, {rule.significance.too_small}"
    return Outcome.NORMAL, _describe_position(series, found) + ending


def _identity(run: Run) -> tuple[str, str, int, datetime]:
    return run.testbed, run.job, run.build, run.started


def previous_traces(series: Sequence[Series], run: Run) -> set[TraceKey]:
    """Return the traces of the previous run of the same job on the same testbed, in the same experiment.

    Those that are optional are not included.
    """
    alike = (run.testbed, run.job, run.experiment)
    earlier = {
        (each.started, each.build): _identity(each)
        for one in series
        for each in one.runs
        if (each.testbed, each.job, each.experiment) == alike and _identity(each) != _identity(run)
    }
    earlier = {moment: name for moment, name in earlier.items() if moment < (run.started, run.build)}
    if not earlier:
        return set()
    previous = earlier[max(earlier)]
    return {
        one.key
        for one in series
        if not one.key.is_optional and any(_identity(each) == previous for each in one.runs)
    }


def _without_value(series: Series) -> tuple[Outcome, str] | None:
    """Return why the newest run has no value; None if it has one."""
    result = series.results[-1] if series.results else None
    if result and result.marked:
        return Outcome.NOT_VALID, result.invalid
    if result and result.status is Status.FAIL:
        return Outcome.FAILED, result.message or result.invalid or "the test failed without a message"
    if result and result.status is Status.SKIP:
        return Outcome.MISSING, f"skipped: {result.message}" if result.message else "skipped"
    if result and result.invalid:
        return Outcome.NOT_VALID, result.invalid
    if not np.isfinite(series.samples[-1]):
        return Outcome.NOT_VALID, "the run has no value that may enter the trend"
    return None


@dataclass(frozen=True, slots=True)
class _ShownChanges:
    """The changes of a trace that users see, new or not."""

    changes: tuple[Change, ...]
    vanished: tuple[Change, ...] = ()
    suspected: Change | None = None
    bad_runs: tuple[Change, ...] = ()


def _by_groups(
    series: Series, found: Findings, sighting: SuspectedChange, rule: ReportingRule
) -> _ShownChanges:
    steps, vanished = detail_steps(series.samples, found, rule)
    seen = detail_suspected_change(found, sighting)
    suspected = None
    if seen is not None and is_distinct_from(seen, steps):
        if sighting.state is DetectorState.SUSPECTED:
            suspected = seen
        else:
            steps = tuple(sorted((*steps, seen), key=lambda step: step.position))
    elif found.doubts[-1:] == (PERHAPS_OUTLIER,) and sighting.state is not DetectorState.CHANGED:
        *before, suspected = steps
        steps = tuple(before)
    return _ShownChanges(steps, vanished, suspected, bad_runs(series.samples, found, rule))


def _by_range(series: Series, moving: MovingStatistics) -> tuple[Outcome, str]:
    departures = _departures(series, moving)
    last = series.samples.size - 1
    if departures and departures[-1].position == last:
        return Outcome(departures[-1].direction.value), _describe_departure(series, moving)
    return Outcome.NORMAL, _describe_departure(series, moving)


def _departures(series: Series, moving: MovingStatistics) -> tuple[Change, ...]:
    """Return the runs outside the normal range of their window, as steps from its average."""
    # A comparison with NaN, the range of a short window, is False.
    outside = (series.samples < moving.low) | (series.samples > moving.high)
    return tuple(
        Change(position, before, after, direction(before, after, series.better))
        for position, before, after in (
            (int(at), float(moving.trimmed_average[at]), float(series.samples[at]))
            for at in np.flatnonzero(outside)
        )
    )


def _format_amount(value: float, unit: str) -> str:
    """Write a value with its unit, packets per second in millions."""
    if unit == "pps":
        return f"{value / 1e6:.4g} Mpps"
    return f"{value:.4g} {unit}".rstrip()


def _compare(value: float, reference: float, *, is_step: bool = False) -> str:
    """Return the position of a value, such as ``4.2 % below``; the reference follows it.

    :param is_step: whether a small difference is a change; otherwise it is ``unchanged from`` the reference.
    """
    if value == reference:
        return "unchanged from"
    side = "above" if value > reference else "below"
    if not reference:
        return side
    size = 100 * abs((value - reference) / reference)
    text = f"{size:.1f}"
    if text != "0.0":
        return f"{text} % {side}"
    return f"{size:.2g} % {side}" if is_step else "unchanged from"


def _describe_position(series: Series, found: Findings) -> str:
    """Describe the position of an unchanged newest run in its group."""
    if np.count_nonzero(np.isfinite(series.samples)) == 1:
        return FIRST_RUN
    group = found.partition.groups[-1]
    return (
        f"{_compare(float(series.samples[-1]), group.mean)} the trend of "
        f"{_runs(sample_count(group, found.values))} ({_format_amount(group.mean, series.unit)})"
    )


def _describe_step(series: Series, found: Findings, *, doubt: str = "") -> str:
    """Compare the last group with the one before; name its first run if that is not the newest one."""
    before, after = found.partition.groups[-2:]
    since = ""
    if after.start < series.samples.size - 1:
        name = series.runs[after.start].name
        since = f", since {name}" if doubt else f", found late: since {name}"
    return (
        f"{_compare(after.mean, before.mean, is_step=True)} the trend of the "
        f"{_runs(sample_count(before, found.values))} before ({_format_amount(before.mean, series.unit)})"
        f"{since}{doubt}"
    )


def _describe_sighting(series: Series, found: Findings, seen: SuspectedChange) -> str:
    """Compare the runs since a sighted change with those before it."""
    since = found.confirmed
    count = int(np.count_nonzero(np.isfinite(series.samples[since : seen.position])))
    name = series.runs[seen.position].name
    newest = seen.position == series.samples.size - 1
    drift = "a slow drift, " if seen.shape is ChangeShape.DRIFT else ""
    return (
        f"{drift}{_compare(seen.after, seen.before, is_step=True)} the average of the {_runs(count)} before "
        f"({_format_amount(seen.before, series.unit)}){'' if newest else f', since {name}'}"
    )


def _describe_departure(series: Series, moving: MovingStatistics) -> str:
    """Compare the newest run with the normal range of its window."""
    size = int(moving.sizes[-1])
    if size < MINIMUM_VALUES:
        missing = f"only {_runs(size)} before: three sigma needs {MINIMUM_VALUES}"
        return missing if size else FIRST_RUN
    average, value = float(moving.trimmed_average[-1]), float(series.samples[-1])
    low, high = float(moving.low[-1]), float(moving.high[-1])
    place = "in" if low <= value <= high else "outside"
    return (
        f"{_compare(value, average)} the trimmed average of the {_runs(size)} before "
        f"({_format_amount(average, series.unit)}), {place} its range of {SIGMAS:g} sigma, "
        f"{_format_amount(low, series.unit)} to {_format_amount(high, series.unit)}"
    )


def _runs(count: int) -> str:
    return f"{count} run" if count == 1 else f"{count} runs"
