"""Changes of a trace, and which of them have been reported before.

Two detectors analyse a trace. The partition finds all changes in the whole history. In addition,
the sequential detector monitors the runs since the last confirmed change, and sees a small step
long before it shortens the description. A step of the partition is reported if noise alone does not
explain it; a sighting is reported if its evidence exceeds the limit. Both must be large enough.

A change may appear late: the samples that come after it make it certain. It may also vanish and
come back, or its start may move by a run. It must be reported only once. No state is stored
for that: the earlier analyses are repeated, without the newer samples, and a change that one of
them reported is not new.

A machine in one of two modes, each for days, makes steps that are as clear as those of a commit. The
history distinguishes them: a trace that was at least half as far away twice before, and came back both
times, will probably come back again. Its next visit is reported if it lasts much longer than those did.

Source: "Trend Analysis", sections Anomalies in graphs, and Sample time and analysis time.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from perftrend.analysis.mdl import DEFAULT_FORMULA, Partition, count_as_far, partition
from perftrend.analysis.noise import step_chance
from perftrend.analysis.sequential import (
    CONFIRMING_RUNS,
    QUIET,
    DetectorState,
    SuspectedChange,
    Vigilance,
    monitor,
)
from perftrend.analysis.significance import DEFAULT_SIGNIFICANCE, Significance, pooled_deviation, sample_count
from perftrend.model import Better, Change, Direction, Group, Samples, Trials

MOVED_RUNS = 2
"""How far the start of a change may move, in samples, and still be the same change."""

WATCHED_RUNS = 10
"""The number of runs since the last confirmed change that are needed to sight another one."""

WATCHFUL = Vigilance(false_alarms_per_1000=0.5)
"""Half of the detector's usual rate, because the partition has false alarms of its own."""

REMEMBERED_RUNS = 50
"""Fewer runs do not show whether their noise has a memory."""

OBVIOUS_DEVIATIONS = 10.0
"""From which on a first far-off run is reported at once: by Student's t of 3 one of 1,300 runs is so low."""

BY_MEMORY = "which can be noise, since runs resemble those before"
PERHAPS_OUTLIER = "which may be an outlier: the next runs decide"
_LEAST_VISITS = 2
"""One return may be a change that was undone."""
_PART = 0.5
"""Fraction of a step: a level at or beyond this part of the way counts as reached."""
_LEVEL_RUNS = 3
"""Fewer runs are bad runs, not a level: the trace has not left its level for them."""
_LASTING = 5.0
"""A stay longer than this number of average earlier visits is not a visit: by chance one of 150 is."""


@dataclass(frozen=True, slots=True)
class ReportingRule:
    """The parameters of all analyses of a trace, today's and the earlier ones."""

    better: Better
    formula: str = DEFAULT_FORMULA
    outliers: bool = True
    """Whether the partition separates single bad runs from the groups."""
    significance: Significance = DEFAULT_SIGNIFICANCE
    vigilance: Vigilance = WATCHFUL
    trials: Trials | None = None
    """All trials of each run of the trace, if the partition uses these; None: it uses their averages."""


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """The partition of one analysis, its steps, and which of them are reported."""

    partition: Partition
    values: Samples
    """The samples without those that the partition separates, shape (n,)."""
    steps: tuple[Change, ...]
    doubts: tuple[str, ...]
    """Why each step is not reported; empty if it is."""
    confirmed: int
    """The first run after the last confirmed change; 0 if there is none."""

    def index(self, step: Change) -> int:
        """Return the index of the group after a step."""
        return [group.start for group in self.partition.groups].index(step.position)


def direction(before: float, after: float, better: Better) -> Direction:
    """Return whether a step is a progression or a regression; the two values must differ."""
    good = (after > before) == (better is Better.HIGHER)
    return Direction.PROGRESSION if good else Direction.REGRESSION


def changes(found: Partition, better: Better) -> tuple[Change, ...]:
    """Return the steps between the groups, except those that do not change the average."""
    return tuple(
        Change(after.start, before.mean, after.mean, direction(before.mean, after.mean, better))
        for before, after in pairwise(found.groups)
        if before.mean != after.mean
    )


def findings(samples: Samples, rule: ReportingRule) -> Findings:
    """Partition a trace and decide which of its steps are reported.

    :param samples: run averages, shape (n,), NaN if a run has none.
    """
    found = _partition(samples, rule)
    values = samples.copy()
    values[list(found.outliers)] = np.nan
    starts = [group.start for group in found.groups]
    steps = changes(found, rule.better)
    confirmed = _find_confirmed(found.groups, values, rule.significance)
    doubts = tuple(
        _doubt(found.groups, index, values, confirmed, rule.significance)
        or (PERHAPS_OUTLIER if _is_suspected(found, index, samples, values) else "")
        for index in (starts.index(step.position) for step in steps)
    )
    return Findings(found, values, steps, doubts, confirmed[-1])


def _partition(samples: Samples, rule: ReportingRule) -> Partition:
    """Partition a trace, or its beginning, into groups that are described by the averages of their runs.

    The trials of one run are more similar than those of two runs, so that their deviation
    underestimates the noise between runs.
    """
    if rule.trials is None:
        return partition(samples, formula=rule.formula, outliers=rule.outliers)
    found = partition(rule.trials[: samples.size], formula=rule.formula, outliers=rule.outliers)
    return found.by_averages(samples)


def _is_suspected(found: Partition, index: int, samples: Samples, values: Samples) -> bool:
    """Whether a group may consist of bad runs: the newest one, of one or two runs that are off.

    The sequential detector weighs such runs, but not in a young trace. In one that never had a bad
    run a large change is reported with its first run, as the source specifies. In one that never had a run
    this far off, two in a row that are alike are not a coincidence.

    If the trace comes back part of the way after a single bad run, the step back is none: the newest run is
    still on the other side of the level before.

    :param index: the group, from 1.
    """
    before, newest = found.groups[index - 1], found.groups[index]
    if newest.start not in found.suspected:
        return False
    sizes = [sample_count(group, values) for group in found.groups]
    if index > 1 and sizes[index - 1] == 1:
        level = found.groups[index - 2].mean
        if (newest.mean - before.mean) * (newest.mean - level) < 0:
            return True
    step = abs(newest.mean - before.mean)
    young = sum(sizes) <= WATCHED_RUNS + 1
    obvious = young or step >= OBVIOUS_DEVIATIONS * pooled_deviation(found.groups, sizes, index)
    outliers = samples[list(found.outliers)]
    known = count_as_far(outliers, before.mean, newest.mean) if sizes[index] > 1 else outliers.size
    return bool(known) or not obvious


def _doubt(
    groups: Sequence[Group],
    index: int,
    values: Samples,
    confirmed: Sequence[int],
    significance: Significance,
) -> str:
    """Return why the step to a group is not reported; empty if it is.

    :param groups: all groups, or those that are levels.
    :param index: the group after the step, from 1.
    :param confirmed: the positions of the confirmed changes, after 0.
    """
    group = groups[index]
    if doubt := significance.doubt(groups, index, values):
        return doubt
    runs = sample_count(group, values)
    since = confirmed[bisect_left(confirmed, group.start) - 1]
    levels = [each for each in groups[:index] if sample_count(each, values) >= CONFIRMING_RUNS]
    stretch = np.concatenate(
        [values[each.start : each.stop] for each in (*levels, group) if each.start >= since]
    )
    stretch = stretch[np.isfinite(stretch)]
    if REMEMBERED_RUNS <= stretch.size > runs:
        places = 1 if runs == 1 else stretch.size - 1
        if places * step_chance(stretch, runs) > significance.chance:
            return BY_MEMORY
    return doubt_of_return(groups, index, values)


def _find_confirmed(groups: Sequence[Group], values: Samples, significance: Significance) -> list[int]:
    """Return the first runs after the confirmed changes, in the order of time, after 0.

    Levels of fewer runs than confirm a change are skipped: after a single bad run the trace continues
    as before.
    """
    levels = [group for group in groups if sample_count(group, values) >= CONFIRMING_RUNS]
    confirmed = [0]
    for index in range(1, len(levels)):
        if not _doubt(levels, index, values, confirmed, significance):
            confirmed.append(levels[index].start)
    return confirmed


def bad_runs(samples: Samples, found: Findings, rule: ReportingRule) -> tuple[Change, ...]:
    """Return the single runs that are separated from the groups, each as a step away from its trend.

    :param samples: run averages, shape (n,), NaN if a run has none.
    :param found: the findings in ``samples``.
    """
    starts = [group.start for group in found.partition.groups]
    changes = []
    for position in found.partition.outliers:
        trend = found.partition.groups[max(bisect_right(starts, position) - 1, 0)].mean
        value = float(samples[position])
        changes.append(Change(position, trend, value, direction(trend, value, rule.better)))
    return tuple(changes)


def sight(samples: Samples, found: Findings, rule: ReportingRule) -> SuspectedChange:
    """Monitor the runs since the last confirmed change; see :func:`~perftrend.analysis.monitor`.

    :returns: QUIET while these are few: with few runs the detector has more errors than stated.
    """
    if np.count_nonzero(np.isfinite(samples[found.confirmed :])) <= WATCHED_RUNS:
        return QUIET
    # Bad runs are no evidence for a small change of the runs around them. Several in a row may be bad ones
    # only if the trace had some before.
    values = found.values.copy()
    if found.doubts[-1:] == (PERHAPS_OUTLIER,):
        start = found.steps[-1].position
        if found.partition.outliers or not np.isfinite(values[start + 1 :]).any():
            values[start:] = np.nan
    return monitor(values, better=rule.better, since=found.confirmed, vigilance=rule.vigilance)


def as_change(sighting: SuspectedChange) -> Change | None:
    """Return what the sequential detector saw as a change; None if it is quiet."""
    if sighting.direction is None or sighting.before == sighting.after:
        return None
    return Change(sighting.position, sighting.before, sighting.after, sighting.direction)


def counts(sighting: SuspectedChange, significance: Significance) -> bool:
    """Whether a sighting is reported: its evidence suffices, and it is large enough."""
    step = abs(sighting.after - sighting.before)
    return sighting.state is DetectorState.CHANGED and step >= significance.minimum_change * abs(
        sighting.before
    )


def has_been_reported(
    samples: Samples, change: Change, *, rule: ReportingRule, sighted: bool = False, new_runs: int = 1
) -> bool:
    """Whether an earlier analysis has reported a change.

    The partition of the earlier one may have seen its start up to two samples apart, if its new
    trend was nearer to today's than half of the step: otherwise the trend has moved on, which is reported.
    The place of a sighting is less certain: its new trend must not have moved on, but any place matches.

    :param samples: run averages, shape (n,), NaN if a run has none.
    :param change: a step of the partition of ``samples``, or what was sighted in them.
    :param rule: the parameters of all analyses.
    :param sighted: whether the change was sighted by the sequential detector.
    :param new_runs: how many of the newest runs no earlier analysis has seen.
    """
    present = np.flatnonzero(np.isfinite(samples))
    rank = {position: index for index, position in enumerate(present.tolist())}
    if change.position == present[-1]:
        return False

    def same(old: Change, *, fuzzy: bool) -> bool:
        moved = abs(rank[old.position] - rank[change.position])
        if old.direction is not change.direction or not moved:
            return old.direction is change.direction
        return not _has_moved_on(old, change) if fuzzy else moved <= MOVED_RUNS and _near(old, change)

    first = max(rank[change.position] - MOVED_RUNS, 0)
    stops = [position + 1 for position in present[first:].tolist()]
    # Newest first: usually yesterday's analysis reported the change.
    for stop in reversed([stop for stop in stops if stop <= samples.size - new_runs]):
        earlier = findings(samples[:stop], rule)
        certain = [step for step, doubt in zip(earlier.steps, earlier.doubts, strict=True) if not doubt]
        if any(same(old, fuzzy=sighted) for old in certain):
            return True
        sighting = sight(samples[:stop], earlier, rule)
        old = as_change(sighting) if counts(sighting, rule.significance) else None
        if old and same(old, fuzzy=True):
            return True
    return False


def _near(old: Change, new: Change) -> bool:
    return abs(new.after - old.after) <= abs(new.after - new.before) / 2


def _has_moved_on(old: Change, new: Change) -> bool:
    """Whether the trend went on, in the direction of the change, by more than half of the step."""
    step = new.after - new.before
    return math.copysign(1, step) * (new.after - old.after) > abs(step) / 2


def visits(groups: Sequence[Group], index: int, samples: Samples) -> list[int]:
    """Return the number of runs of each earlier visit to the side of a group, in the order of time.

    :param groups: all groups of the partition of ``samples``.
    :param index: the group after the step, from 1.
    :param samples: run averages, shape (n,), NaN if a run has none.
    """
    before, after = groups[index - 1].mean, groups[index].mean
    sizes: list[int] = []
    was_there = False
    for group in groups[: index - 1]:
        if sample_count(group, samples) < _LEVEL_RUNS:
            continue
        is_there = _is_reached(group, before, after)
        if is_there:
            sizes[len(sizes) - was_there :] = [
                sum(sizes[len(sizes) - was_there :]) + sample_count(group, samples)
            ]
        was_there = is_there
    return sizes


def _is_reached(group: Group, before: float, after: float) -> bool:
    """Whether a group is on the far side of a step."""
    return bool((group.mean - before - _PART * (after - before)) * np.sign(after - before) >= 0)


def doubt_of_return(groups: Sequence[Group], index: int, samples: Samples) -> str:
    """Return that a step leads to an earlier level; empty if it does not, or lasts longer than the visits.

    :returns: the end of a sentence for users.
    """
    earlier = visits(groups, index, samples)
    if len(earlier) < _LEAST_VISITS:
        return ""
    before, after = groups[index - 1].mean, groups[index].mean
    stay = 0
    for group in groups[index:]:
        count = sample_count(group, samples)
        if _is_reached(group, before, after):
            stay += count
        elif count >= _LEVEL_RUNS:
            break
    if stay > _LASTING * sum(earlier) / len(earlier):
        return ""
    return f"as {len(earlier)} times before, and the trace came back"
