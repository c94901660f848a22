"""Details of each change in addition to its step: certainty, position, and the common patterns of trends.

A change is classified by sample time and analysis time: by its position, and by the analysis
that first found it. The analyses of the last runs are repeated, each without the runs that came
after it. A change is the same in two analyses if it has the same direction and its start moved by
no more than two runs.

Source: "Trend Analysis", section Common Patterns; :mod:`.significance`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perftrend import errors
from perftrend.analysis.change_evidence import ChangeShape, shape_of
from perftrend.analysis.mdl import (
    DEFAULT_FORMULA,
    GrowingPartition,
    Partition,
    RepeatedSearch,
    partition_after,
)
from perftrend.analysis.mdl.partitions import describe_runs
from perftrend.analysis.reportable_changes import (
    MOVED_RUNS,
    PERHAPS_OUTLIER,
    Findings,
    ReportingRule,
    as_change,
    bad_runs,
    changes,
    counts,
    findings,
    sight,
)
from perftrend.analysis.sequential import DetectorState, SuspectedChange
from perftrend.analysis.significance import certainty, sample_count
from perftrend.model import Better, Change, Group, Samples, Trials

DEFAULT_ANALYSES = 30
"""The number of last analyses that are repeated: a month of nights."""

SMALL_SIGMAS = 3.0
"""A step of fewer deviations of the trace cannot be seen in one run."""

REVERT_RUNS = 5
"""A change that is undone after at most this number of runs is reverted, not followed by another one."""


class Pattern(StrEnum):
    """The usual kinds of changes, by their course over time."""

    ORDINARY = "ordinary"
    """From one stable value to another, large enough to be seen at once, and seen at once."""
    SMALL = "small"
    """From one stable value to another, but by so little that it takes many runs to be seen."""
    REVERTED = "reverted"
    """There and back within a few runs: a change that was undone, or a disturbance. Both steps
    have this name."""
    LATE = "late-appearing"
    """Large enough to be seen at once, but found only when later runs made it more probable."""
    VANISHED = "vanished"
    """An earlier analysis had it; with the runs that came since, it is gone."""


@dataclass(frozen=True, slots=True)
class NamedChange:
    """A change with its pattern and the analyses that saw it."""

    change: Change
    """As the newest analysis sees it; a vanished one as the last analysis that saw it did."""
    pattern: Pattern
    first_seen: int
    """Position of the newest run of the first analysis that saw it, among the analyses that were
    repeated."""
    last_seen: int
    """Position of the newest run of the last analysis that saw it."""


def name_patterns(
    samples: ArrayLike,
    *,
    better: Better,
    formula: str = DEFAULT_FORMULA,
    outliers: bool = False,
    trials: Trials | None = None,
    analyses: int = DEFAULT_ANALYSES,
) -> tuple[NamedChange, ...]:
    """Name the changes of a trace, including those that only earlier analyses saw.

    :param samples: run averages in the order of time, shape (n,), any unit; values that are not finite
        are ignored.
    :param better: which direction of the trace is good.
    :param formula: the description length formula of all analyses.
    :param outliers: whether all analyses may separate single runs from the groups; not with trials.
    :param trials: all trials of each run, if the partitions use these; None: they use their averages.
    :param analyses: how many of the last analyses are repeated, including today's, at least 1.
        Each needs a partition.
    :returns: in the order of their positions. Vanished ones only of the repeated analyses.
    :raises SettingsError: if ``analyses`` is below 1.
    """
    if analyses < 1:
        raise errors.SettingsError(f"patterns: analyses is {analyses}; give at least 1")
    values = np.asarray(samples, dtype=np.float64)
    present = np.flatnonzero(np.isfinite(values))
    if not present.size:
        return ()
    histories: list[_ChangeHistory] = []
    repeated = present[-analyses:].tolist()
    analyses_of = (
        _apart(values, repeated, formula)
        if outliers
        else _grow_partition(values if trials is None else trials, repeated, formula)
    )
    if trials is not None:
        analyses_of = (found.by_averages(values) for found in analyses_of)
    for position, found in zip(repeated, analyses_of, strict=True):
        for change in changes(found, better):
            _enter(histories, change, position, present)
    histories.sort(key=lambda history: history.change.position)
    today = [history for history in histories if history.last_seen == repeated[-1]]
    deviation = _deviation(found, values)
    reverted = _find_reverted([history.change for history in today])
    named = [
        NamedChange(
            history.change, _pattern(history, deviation, reverted, present, repeated[0]), *history.seen
        )
        for history in today
    ]
    named += [
        NamedChange(history.change, Pattern.VANISHED, *history.seen)
        for history in histories
        if history.last_seen != repeated[-1]
    ]
    return tuple(sorted(named, key=lambda each: each.change.position))


def detail_steps(
    samples: Samples, found: Findings, rule: ReportingRule
) -> tuple[tuple[Change, ...], tuple[Change, ...]]:
    """Return the steps of the partition with their details, and those that have vanished.

    :param samples: run averages, shape (n,), NaN if a run has none.
    :param found: the findings in ``samples``.
    :returns: all steps of today; and the steps that an earlier analysis reported and today's does not find.
    """
    named = name_patterns(
        samples, better=rule.better, formula=rule.formula, outliers=rule.outliers, trials=rule.trials
    )
    patterns = {each.change.position: each.pattern for each in named if each.pattern is not Pattern.VANISHED}
    groups = found.partition.groups
    known = [_certain(step, found.values, groups, found.index(step)) for step in found.steps]
    steps = tuple(replace(step, pattern=str(patterns.get(step.position, ""))) for step in known)
    vanished = tuple(
        replace(each.change, pattern=str(each.pattern))
        for each in named
        if each.pattern is Pattern.VANISHED and _has_been_reported(samples, each, rule)
    )
    return steps, vanished


def detail_suspected_change(found: Findings, sighting: SuspectedChange) -> Change | None:
    """Return the change that the sequential detector saw, with its details; None if it is quiet."""
    change = as_change(sighting)
    if change is None:
        return None
    groups = groups_around(found, change)
    known = _certain(change, found.values, groups, len(groups) - 1)
    small = abs(known.effect_size) < SMALL_SIGMAS
    return replace(known, pattern=str(Pattern.SMALL if small else Pattern.ORDINARY))


@dataclass(frozen=True, slots=True)
class ReportedChanges:
    """The changes that one analysis of a trace reports, new or not."""

    changes: tuple[Change, ...]
    """The steps that noise does not explain, and what the sequential detector sees."""
    suspected: tuple[Change, ...]
    """Single bad runs, and a change that the newest run suggests."""


def find_reported_changes(samples: Samples, rule: ReportingRule) -> ReportedChanges:
    """Return the changes of a trace that are reported, as verdicts and alerts count them.

    :param samples: run averages, shape (n,), NaN if a run has none; at least one value.
    """
    found = findings(samples, rule)
    doubted = list(zip(found.steps, found.doubts, strict=True))
    reported = [step for step, doubt in doubted if not doubt]
    suspected = [*bad_runs(samples, found, rule), *(s for s, doubt in doubted if doubt == PERHAPS_OUTLIER)]
    sighting = sight(samples, found, rule)
    seen = as_change(sighting)
    if seen and counts(sighting, rule.significance) and is_distinct_from(seen, tuple(reported)):
        reported.append(seen)
        suspected = [each for each in suspected if is_distinct_from(seen, (each,))]
    elif seen and sighting.state is DetectorState.SUSPECTED and is_distinct_from(seen, found.steps):
        suspected.append(seen)
    return ReportedChanges(tuple(sorted(reported, key=lambda each: each.position)), tuple(suspected))


def groups_around(found: Findings, change: Change) -> list[Group]:
    """Return the groups of a trace, split so that a sighted change is between the last two."""
    since = found.confirmed
    groups = [group for group in found.partition.groups if group.stop <= since]
    groups += [
        _group(found.values, start, stop)
        for start, stop in ((since, change.position), (change.position, found.values.size))
    ]
    return groups


def is_distinct_from(change: Change, steps: tuple[Change, ...]) -> bool:
    """Whether a sighting is not among the steps of the partition."""
    return not any(
        step.direction is change.direction and abs(step.position - change.position) <= MOVED_RUNS
        for step in steps
    )


def _grow_partition(runs: Samples | Trials, repeated: Sequence[int], formula: str) -> Iterator[Partition]:
    """Yield the partition of each analysis: one more run costs a fraction of a new search."""
    growing = GrowingPartition(runs[: repeated[0] + 1], formula=formula)
    yield growing.partition()
    for earlier, position in pairwise(repeated):
        for run in runs[earlier + 1 : position + 1]:
            growing.append(run)
        yield growing.partition()


def _apart(values: Samples, repeated: Sequence[int], formula: str) -> Iterator[Partition]:
    """Yield the partition of each analysis, with single runs separated from the groups."""
    search = RepeatedSearch()
    for position in repeated:
        yield partition_after(search, values[: position + 1], formula=formula, outliers=True)


@dataclass(slots=True)
class _ChangeHistory:
    """One change through the analyses."""

    change: Change
    first_seen: int
    last_seen: int

    @property
    def seen(self) -> tuple[int, int]:
        return self.first_seen, self.last_seen


def _enter(
    histories: list[_ChangeHistory], change: Change, analysis: int, present: NDArray[np.int64]
) -> None:
    """Add what an analysis saw to the change that it belongs to, or as a new one."""
    distances = [
        (_runs_between(history.change.position, change.position, present), index)
        for index, history in enumerate(histories)
        if history.change.direction is change.direction and history.last_seen < analysis
    ]
    distance, index = min(distances, default=(math.inf, -1))
    if distance > MOVED_RUNS:
        histories.append(_ChangeHistory(change, analysis, analysis))
        return
    histories[index].change = change
    histories[index].last_seen = analysis


def _runs_between(first: int, second: int, present: NDArray[np.int64]) -> int:
    low, high = np.searchsorted(present, sorted((first, second)))
    return int(high - low)


def _deviation(found: Partition, samples: Samples) -> float:
    """Return the standard deviation about the trends, pooled over all groups; 0 if unknown."""
    sizes = [sample_count(group, samples) for group in found.groups]
    freedom = sum(sizes) - len(sizes)
    squares = math.fsum(size * group.stdev**2 for size, group in zip(sizes, found.groups, strict=True))
    return math.sqrt(squares / freedom) if freedom else 0.0


def _find_reverted(steps: Sequence[Change]) -> set[int]:
    """Return the positions of the changes that are soon undone, and of those that undo them."""
    positions = set()
    for index, change in enumerate(steps):
        for later in steps[index + 1 :]:
            if later.position - change.position > REVERT_RUNS:
                break
            opposite = later.direction is not change.direction
            if opposite and abs(later.after - change.before) <= abs(change.after - change.before) / 2:
                positions |= {change.position, later.position}
    return positions


def _pattern(
    history: _ChangeHistory,
    deviation: float,
    reverted: set[int],
    present: NDArray[np.int64],
    first_analysis: int,
) -> Pattern:
    change = history.change
    if change.position in reverted:
        return Pattern.REVERTED
    if abs(change.after - change.before) < SMALL_SIGMAS * deviation:
        return Pattern.SMALL
    # What the first repeated analysis saw may have been known long before.
    appeared = history.first_seen > first_analysis
    delay = _runs_between(change.position, history.first_seen, present)
    return Pattern.LATE if appeared and delay > MOVED_RUNS else Pattern.ORDINARY


def _certain(step: Change, values: Samples, groups: Sequence[Group], index: int) -> Change:
    known = certainty(values, groups, index)
    around = values[groups[index - 1].start : groups[index].stop]
    return replace(
        step,
        confidence=known.confidence,
        effect_size=known.effect_size,
        last_before=known.last_before,
        first_after=known.first_after,
        drift=shape_of(around[np.isfinite(around)]) is ChangeShape.DRIFT,
    )


def _group(values: Samples, start: int, stop: int) -> Group:
    mean, stdev = describe_runs(values[start:stop][np.isfinite(values[start:stop])])
    return Group(start, stop, mean, stdev, 0.0)


def _has_been_reported(samples: Samples, vanished: NamedChange, rule: ReportingRule) -> bool:
    """Whether noise did not explain the change when it was last seen."""
    earlier = findings(samples[: vanished.last_seen + 1], rule)
    return any(
        not doubt and step.position == vanished.change.position
        for step, doubt in zip(earlier.steps, earlier.doubts, strict=True)
    )
