"""Details of each change in addition to its step: certainty, position and pattern.

Source: "Trend Analysis", section Common Patterns; :mod:`.significance` and :mod:`.change_patterns`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perftrend.analysis.change_evidence import ChangeShape, shape_of
from perftrend.analysis.change_patterns import SMALL_SIGMAS, NamedChange, Pattern, name_patterns
from perftrend.analysis.reportable_changes import (
    MOVED_RUNS,
    PERHAPS_OUTLIER,
    Findings,
    ReportingRule,
    as_change,
    bad_runs,
    counts,
    findings,
    sight,
)
from perftrend.analysis.sequential import DetectorState, SuspectedChange
from perftrend.analysis.significance import certainty
from perftrend.model import Change, Group, Samples


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
    changes = [step for step, doubt in doubted if not doubt]
    suspected = [*bad_runs(samples, found, rule), *(s for s, doubt in doubted if doubt == PERHAPS_OUTLIER)]
    sighting = sight(samples, found, rule)
    seen = as_change(sighting)
    if seen and counts(sighting, rule.significance) and is_distinct_from(seen, tuple(changes)):
        changes.append(seen)
        suspected = [each for each in suspected if is_distinct_from(seen, (each,))]
    elif seen and sighting.state is DetectorState.SUSPECTED and is_distinct_from(seen, found.steps):
        suspected.append(seen)
    return ReportedChanges(tuple(sorted(changes, key=lambda each: each.position)), tuple(suspected))


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
    present = values[start:stop][np.isfinite(values[start:stop])]
    return Group(start, stop, float(present.mean()), float(present.std()), 0.0)


def _has_been_reported(samples: Samples, vanished: NamedChange, rule: ReportingRule) -> bool:
    """Whether noise did not explain the change when it was last seen."""
    earlier = findings(samples[: vanished.last_seen + 1], rule)
    return any(
        not doubt and step.position == vanished.change.position
        for step, doubt in zip(earlier.steps, earlier.doubts, strict=True)
    )
