"""The side of a change that a commit is on, for searches without a session, such as git bisect run.

The old end, the commit and the new end are treated as a history of their own, in which the adaptive strategy
searches for the change. If the commit brings it, the commit is like the new end; if the new end brings it,
the commit is like the old one.

A commit may differ from both. Then it is like the new end, because a change precedes it, unless the change
after it is certainly the larger one: so commits of one level are all judged alike, whatever the noise.

A test that fails only with the commit shows no side, and is left out. This module does no input or output.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from perftrend.bisect.adaptive import Adaptive
from perftrend.bisect.state import (
    BisectOutcome,
    BisectState,
    CommitRange,
    Culprit,
    Effect,
    MeasureStep,
    OutcomeKind,
    RangeCommit,
)
from perftrend.model import BuildMeasurement

_FAILURES = 2
"""Measurements of a commit in which a test fails before it is left out."""
_PERHAPS = 0.25
"""A second change is searched for if two changes have at least this probability; each of two counts half."""
_ENOUGH = 5
"""Measurements of each build before two changes are considered equally large."""


class CommitSide(StrEnum):
    """The side of a commit."""

    OLD = "old"
    NEW = "new"
    UNKNOWN = "unknown"
    """The commit cannot be judged."""
    NONE = "none"
    """The ends do not differ, so that no commit can be judged."""


@dataclass(frozen=True, slots=True)
class SideVerdict:
    """The side of a commit, and its probability."""

    side: CommitSide
    reason: str = ""
    """One sentence for users; empty if there is nothing to explain."""
    confidence: float = math.nan
    """The probability of the side; NaN if unknown."""
    smallest_visible: Mapping[str, float] = field(default_factory=dict, hash=False)
    """By test, the smallest relative difference of the ends that would have been shown."""


def range_around(old: str, commit: str, new: str) -> CommitRange:
    """Return the history of a commit and both ends."""
    return CommitRange(old, (RangeCommit(commit, (old,)), RangeCommit(new, (commit,))))


def judge(state: BisectState, strategy: Adaptive) -> MeasureStep | SideVerdict:
    """Return the next measurement, or the side of the commit.

    :param state: of a range from :func:`range_around`.
    """
    commit, _ = state.history.commits
    alone = _lone_failures(state)
    if alone and state.times_measured(commit) < _FAILURES:
        return MeasureStep(commit, f"{min(alone)} fails, and with neither end")
    known = replace(state, measured=tuple(_without(each, alone) for each in state.measured))
    if alone and not any(each.values or each.failed for each in known.measured):
        return SideVerdict(CommitSide.UNKNOWN, f"{min(alone)} fails, and with neither end")
    step = replace(strategy, maximum_changes=1).next(known)
    if isinstance(step, BisectOutcome) and step.kind is OutcomeKind.FOUND and _may_differ_from_both(step):
        step = replace(strategy, maximum_changes=2).next(known)
    return (
        step if isinstance(step, MeasureStep) else _judge_outcome(step, state, strategy.maximum_measurements)
    )


def _judge_outcome(outcome: BisectOutcome, state: BisectState, most: int) -> MeasureStep | SideVerdict:
    commit, new = state.history.commits
    if outcome.kind is not OutcomeKind.FOUND:
        # If the ends have not been distinguished, no other commit can be judged either.
        ends = [each for each in state.measured if each.commit != commit]
        distinguished = state.times_measured(commit) and any(
            state.compared & each.values.keys() for each in ends
        )
        side = (
            CommitSide.UNKNOWN if distinguished and outcome.kind is OutcomeKind.UNDECIDED else CommitSide.NONE
        )
        visible = outcome.smallest_visible if outcome.kind is OutcomeKind.NO_DIFFERENCE else {}
        return SideVerdict(side, outcome.reason, smallest_visible=visible)
    changes = {each.commits[0]: each for each in outcome.culprits}
    if len(changes) == 1:
        return SideVerdict(
            CommitSide.NEW if commit in changes else CommitSide.OLD, confidence=outcome.culprits[0].confidence
        )
    before, after = changes[commit], changes[new]
    if _surely_larger(after, before):
        return SideVerdict(CommitSide.OLD, "it differs from both ends, less from this one", after.confidence)
    if _surely_larger(before, after):
        return SideVerdict(CommitSide.NEW, "it differs from both ends, less from this one", before.confidence)
    least = min((state.range.old, commit, new), key=state.times_measured)
    if state.times_measured(least) < _ENOUGH and len(state.measured) < most:
        return MeasureStep(least, "it differs from both ends, and from which one more is not sure")
    return SideVerdict(CommitSide.NEW, "it differs from both ends", before.confidence)


def _may_differ_from_both(found: BisectOutcome) -> bool:
    return sum(each.probability >= _PERHAPS for each in found.belief if each.commits) > 1


def _lone_failures(state: BisectState) -> set[str]:
    """Return the tests that never gave a value with the commit, but did with both ends."""
    commit, new = state.history.commits
    old = state.range.old
    worked, failed = (
        {end: {test for each in state.measured if each.commit == end for test in getattr(each, what)}
         for end in (old, commit, new)}
        for what in ("values", "failed")
    )  # fmt: skip
    return (failed[commit] - worked[commit]) & worked[old] & worked[new]


def _without(measured: BuildMeasurement, tests: set[str]) -> BuildMeasurement:
    return replace(
        measured,
        values={test: each for test, each in measured.values.items() if test not in tests},
        failed={test: why for test, why in measured.failed.items() if test not in tests},
    )


def _surely_larger(one: Culprit, other: Culprit) -> bool:
    least = max((_span(each)[0] for each in one.effects.values()), default=0.0)
    most = max((_span(each)[1] for each in other.effects.values()), default=0.0)
    return least > most


def _span(effect: Effect) -> tuple[float, float]:
    """Return the smallest and the largest size of a change, as absolute log ratios of both levels."""
    if math.isnan(effect.before) != math.isnan(effect.after):
        return math.inf, math.inf
    low, high = (0.0 if math.isnan(each) else _logarithm(each) for each in (effect.low, effect.high))
    least = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
    return least, max(abs(low), abs(high))


def _logarithm(relative: float) -> float:
    return math.log1p(relative) if relative > -1 else -math.inf
