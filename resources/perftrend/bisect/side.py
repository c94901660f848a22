"""Which side of a change one commit is on, for who walks through a history by other means than a session.

The old end, the commit and the new end are taken for a history of their own, in which the adaptive strategy
looks for the change. Where the commit brings it, the commit is like the new end, and where the new end brings
it, the commit is like the old one.

A commit may differ from both. Then it is like the new end, because a change lies before it, unless the change
behind it is surely the larger one: so commits of one level are all judged alike, however noise falls.

A test that fails with the commit alone tells no side, and is left out. No input or output is done here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from perftrend.bisect.adaptive import Adaptive
from perftrend.bisect.outcome import Culprit, Effect, Kind, Measure, Outcome
from perftrend.bisect.state import Commit, Range, State
from perftrend.model import Measured

_FAILURES = 2
"""Measurements with which a test fails before it is left out."""
_PERHAPS = 0.25
"""If a half of this belongs to each of two changes, a second one is looked for."""
_ENOUGH = 5
"""Measurements of each build before two changes are taken for equally large."""


class Side(StrEnum):
    """Where a commit is."""

    OLD = "old"
    NEW = "new"
    UNKNOWN = "unknown"
    """It cannot be judged."""
    NONE = "none"
    """The ends do not differ, so that no commit can be judged."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The side of a commit."""

    side: Side
    reason: str = ""
    """In one sentence for a person; empty where there is nothing to explain."""
    confidence: float = math.nan
    """The probability of the side; NaN where there is none."""
    smallest_visible: Mapping[str, float] = field(default_factory=dict, hash=False)
    """By test, the smallest relative difference of the ends that would have been shown."""


def between(old: str, commit: str, new: str) -> Range:
    """Take a commit and both ends for a history of their own."""
    return Range(old, (Commit(commit, (old,)), Commit(new, (commit,))))


def judge(state: State, strategy: Adaptive) -> Measure | Judged:
    """Say what to measure next, or which side the commit is on.

    :param state: of a range that :func:`between` made.
    """
    commit, _ = state.history.commits
    alone = _failing_alone(state)
    if alone and state.times_measured(commit) < _FAILURES:
        return Measure(commit, f"{min(alone)} fails, and with neither end")
    known = replace(state, measured=tuple(_without(each, alone) for each in state.measured))
    if alone and not any(each.values or each.failed for each in known.measured):
        return Judged(Side.UNKNOWN, f"{min(alone)} fails, and with neither end")
    step = replace(strategy, maximum_changes=1).next(known)
    if isinstance(step, Outcome) and step.kind is Kind.FOUND and _may_differ_from_both(step):
        step = replace(strategy, maximum_changes=2).next(known)
    return step if isinstance(step, Measure) else _judged(step, state, strategy.maximum_measurements)


def _judged(outcome: Outcome, state: State, most: int) -> Measure | Judged:
    commit, new = state.history.commits
    if outcome.kind is not Kind.FOUND:
        # Ends that have not been told apart can judge no other commit either.
        ends = [each for each in state.measured if each.commit != commit]
        told_apart = state.times_measured(commit) and any(
            state.compared & each.values.keys() for each in ends
        )
        side = Side.UNKNOWN if told_apart and outcome.kind is Kind.UNDECIDED else Side.NONE
        visible = outcome.smallest_visible if outcome.kind is Kind.NO_DIFFERENCE else {}
        return Judged(side, outcome.reason, smallest_visible=visible)
    changes = {each.commits[0]: each for each in outcome.culprits}
    if len(changes) == 1:
        return Judged(Side.NEW if commit in changes else Side.OLD, confidence=outcome.culprits[0].confidence)
    before, after = changes[commit], changes[new]
    if _surely_larger(after, before):
        return Judged(Side.OLD, "it differs from both ends, less from this one", after.confidence)
    if _surely_larger(before, after):
        return Judged(Side.NEW, "it differs from both ends, less from this one", before.confidence)
    least = min((state.range.old, commit, new), key=state.times_measured)
    if state.times_measured(least) < _ENOUGH and len(state.measured) < most:
        return Measure(least, "it differs from both ends, and from which one more is not sure")
    return Judged(Side.NEW, "it differs from both ends", before.confidence)


def _may_differ_from_both(found: Outcome) -> bool:
    return sum(each.probability >= _PERHAPS for each in found.belief if each.commits) > 1


def _failing_alone(state: State) -> set[str]:
    """Return the tests that never gave a value with the commit, and one with either end."""
    commit, new = state.history.commits
    old = state.range.old
    worked, failed = (
        {end: {test for each in state.measured if each.commit == end for test in getattr(each, what)}
         for end in (old, commit, new)}
        for what in ("values", "failed")
    )  # fmt: skip
    return (failed[commit] - worked[commit]) & worked[old] & worked[new]


def _without(measured: Measured, tests: set[str]) -> Measured:
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
    """Return how small and how large a change may be, as the logarithm of the ratio of both levels."""
    if math.isnan(effect.before) != math.isnan(effect.after):
        return math.inf, math.inf
    low, high = (0.0 if math.isnan(each) else _logarithm(each) for each in (effect.low, effect.high))
    least = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
    return least, max(abs(low), abs(high))


def _logarithm(relative: float) -> float:
    return math.log1p(relative) if relative > -1 else -math.inf
