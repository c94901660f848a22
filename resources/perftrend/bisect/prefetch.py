"""Prediction of the next commits, so that they can be built while another one is measured.

A strategy is a function of the state. So it is evaluated for states in which the current measurement gives
the result of old, or that of new, and repeatedly from there, until it chooses commits that are not built yet.
The more probable course is followed first. The prediction only affects what is prepared, never a decision.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

from perftrend.bisect.state import BisectOutcome, BisectState, MeasureStep, Strategy
from perftrend.model import BuildMeasurement, MetricSamples

_IMAGINED = 8
"""Maximum number of imagined measurements: evaluating a strategy takes time."""
_CHANGE = 0.8
"""Assumed ratio of new to old before new was measured: a clearly visible change."""
_NOTHING_YET = BuildMeasurement(
    commit="",
    started=datetime(2000, 1, 1, tzinfo=UTC),
    finished=datetime(2000, 1, 1, tzinfo=UTC) + timedelta(minutes=1),
    values={"": MetricSamples((1.0,))},
)


def likely(strategy: Strategy, state: BisectState, step: MeasureStep) -> Iterator[str]:
    """Yield the commits that will probably have to be built next, the most probable first.

    :param state: the current state.
    :param step: the current measurement.
    """
    order = count()
    seen = {step.commit}
    courses = [(-share, next(order), after) for share, after in _possible_states(state, step)]
    heapq.heapify(courses)
    for _ in range(_IMAGINED):
        if not courses:
            return
        weight, _, known = heapq.heappop(courses)
        next_step = strategy.next(known)
        if isinstance(next_step, BisectOutcome):
            continue
        if next_step.commit not in known.built and next_step.commit not in seen:
            seen.add(next_step.commit)
            yield next_step.commit
        for share, after in _possible_states(known, next_step):
            heapq.heappush(courses, (weight * share, next(order), after))


def _possible_states(state: BisectState, step: MeasureStep) -> list[tuple[float, BisectState]]:
    """Return the possible states after a measurement, with their probabilities."""
    own = _last(state, step.commit)
    old = _last(state, state.range.old) or _NOTHING_YET
    new = _last(state, state.history.new) or _apply_change(old)
    share = _after_the_change(state, step)
    courses = [(1.0, own)] if own else [(1 - share, old), (share, new)]
    began = state.measured[-1].finished if state.measured else old.finished
    return [
        (
            share,
            state.with_measured(
                replace(
                    like,
                    commit=step.commit,
                    started=began,
                    finished=began + (like.finished - like.started),
                    against=step.against,
                )
            ),
        )
        for share, like in courses
        if share > 0
    ]


def _last(state: BisectState, commit: str) -> BuildMeasurement | None:
    return next((each for each in reversed(state.measured) if each.commit == commit), None)


def _apply_change(old: BuildMeasurement) -> BuildMeasurement:
    values = {
        test: replace(each, samples=tuple(_CHANGE * sample for sample in each.samples))
        for test, each in old.values.items()
    }
    return replace(old, values=values)


def _after_the_change(state: BisectState, step: MeasureStep) -> float:
    """Return the probability that a commit contains the change; a half if the step has no belief."""
    if step.commit == state.range.old:
        return 0.0
    if not step.belief:
        return 0.5
    contained = set(state.history.hashes(state.history.reachable_from(step.commit)))
    shares = (
        each.probability * len(contained.intersection(each.commits)) / len(each.commits)
        for each in step.belief
        if each.commits
    )
    return min(sum(shares), 1.0)
