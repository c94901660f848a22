"""The score of one bisection of one simulated history by one strategy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from perftrend.bisect import BisectOutcome, BisectState, Culprit, Effect, OutcomeKind, Strategy
from perftrend.bisect.simulator import SimulatedHistory, SimulatedTestbed, bisect

Stated = tuple[float, bool]
"""A confidence, and whether the statement is true."""


@dataclass(frozen=True, slots=True)
class Score:
    """The result and the cost of a bisection."""

    number: int
    """The number of the history in its cell."""
    right: bool
    """Every named set of commits is the smallest one that contains a change, and at least one was named; if
    nothing changed, none was named."""
    wrong: bool
    """Commits without a change were named."""
    complete: bool
    """It is right, and all changes were named."""
    measurements: int
    builds: int
    """Including those that failed."""
    minutes: float
    kind: str
    """The kind of outcome, see :class:`perftrend.bisect.OutcomeKind`."""
    named: tuple[Stated, ...]
    """The statements about each commit that was named with a confidence."""
    leading: tuple[Stated, ...]
    """The statements at each step, about the most suspected commits."""
    sizes: tuple[bool, ...] = ()
    """Whether each stated interval of the size of a change contains the true one."""
    reversed: bool = False
    """A change that makes a test slower was reported as one that makes it faster, or vice versa."""
    overlooked: bool = False
    """It ended as "no change above x %", and the new commit differs from the old one by more than x %."""


def score_history(strategy: Strategy, history: SimulatedHistory, number: int = 0) -> Score:
    """Bisect a history, and compare the named commits with the truth."""
    testbed = SimulatedTestbed(history)
    outcome, state = bisect(strategy, testbed)
    return score_outcome(history, outcome, state, testbed, number)


def score_outcome(
    history: SimulatedHistory,
    outcome: BisectOutcome,
    state: BisectState,
    testbed: SimulatedTestbed,
    number: int = 0,
) -> Score:
    """Compare the named commits with the truth."""
    true = {frozenset(history.smallest_set(culprit)) for culprit in history.culprits}
    named = [frozenset(each.commits) for each in outcome.culprits]
    right = all(each in true for each in named) and bool(named) == bool(true)
    sizes = [pair for each in outcome.culprits for pair in _sizes(history, each)]
    stated = [(each.confidence, bool({*each.commits} & {*history.culprits})) for each in outcome.culprits]
    return Score(
        number=number,
        right=right,
        wrong=any(not each & history.culprits.keys() for each in named),
        complete=right and true == set(named),
        measurements=sum(testbed.measured.values()),
        builds=len(testbed.built),
        minutes=testbed.clock_s / 60,
        kind=outcome.kind.value,
        named=tuple(each for each in stated if not math.isnan(each[0])),
        leading=_leading_statements(state, history.culprits),
        sizes=tuple(
            each.low <= true_size <= each.high for each, true_size in sizes if not math.isnan(each.low)
        ),
        reversed=any(each.relative * true_size < 0 for each, true_size in sizes),
        overlooked=_overlooks(history, outcome),
    )


def _overlooks(history: SimulatedHistory, outcome: BisectOutcome) -> bool:
    if outcome.kind is not OutcomeKind.NO_DIFFERENCE:
        return False
    whole = math.fsum(history.culprits.values())
    return any(
        abs(math.expm1(factor * whole / 100)) > outcome.smallest_visible.get(test, math.inf)
        for test, factor in zip(history.tests, history.model.tests, strict=True)
        if factor
    )


def _sizes(history: SimulatedHistory, culprit: Culprit) -> list[tuple[Effect, float]]:
    """Return the stated and the true effect of a named change on each test that it affects."""
    size = math.fsum(history.culprits.get(commit, 0.0) for commit in culprit.commits)
    factors = dict(zip(history.tests, history.model.tests, strict=True))
    return [
        (effect, math.expm1(factors[test] * size / 100))
        for test, effect in culprit.effects.items()
        if math.isfinite(size) and factors[test] * size
    ]


def _leading_statements(state: BisectState, culprits: Mapping[str, float]) -> tuple[Stated, ...]:
    found = []
    for step in state.steps:
        suspected = [each for each in step.belief if each.commits]
        if suspected:
            best = max(suspected, key=lambda each: each.probability)
            found.append((round(best.probability, 5), bool({*best.commits} & {*culprits})))
    return tuple(found)
