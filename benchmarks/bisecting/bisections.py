"""One bisection of one simulated history by one strategy, and how good it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.bisecting.histories import BUILD_S, Simulated
from perftrend.bisect import Outcome, State, Strategy


@dataclass(frozen=True, slots=True)
class Score:
    """How a bisection ended, and what it took."""

    right: bool
    """All that was named are true culprits, and one is named at least; where nothing changed: none is."""
    wrong: bool
    """A commit was named that changed nothing."""
    complete: bool
    """All changes were named."""
    measurements: int
    builds: int
    minutes: float
    confidence: float
    """What was stated of the first culprit; NaN where nothing was."""
    kind: str


def bisected(strategy: Strategy, world: Simulated) -> Score:
    """Bisect a history."""
    state = State(world.range)
    for end in (world.range.old, world.range.history.new):
        world.build(end)
        state = state.with_built(end, BUILD_S)
    while True:
        step = strategy.next(state)
        if isinstance(step, Outcome):
            return scored(world, step)
        if step.commit not in state.built:
            if not world.build(step.commit):
                state = state.with_broken(step.commit, "does not build")
                continue
            state = state.with_built(step.commit, BUILD_S)
        state = state.with_measured(world.measure(step.commit))


def scored(world: Simulated, outcome: Outcome) -> Score:
    """Compare what was named with the truth."""
    named = [frozenset(each.commits) for each in outcome.culprits]
    true = {frozenset(world.smallest_set(culprit)) for culprit in world.culprits}
    wrong = any(each not in true for each in named)
    right = not wrong and bool(named) == bool(true)
    return Score(
        right=right,
        wrong=wrong,
        complete=right and true == set(named),
        measurements=sum(world.measured.values()),
        builds=len(world.built),
        minutes=world.clock_s / 60,
        confidence=outcome.culprits[0].confidence if outcome.culprits else float("nan"),
        kind=outcome.kind.value,
    )


def mean(values: Sequence[float]) -> float:
    """Return the average; NaN of none."""
    return sum(values) / len(values) if values else float("nan")
