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

from perftrend.bisect.outcome import Measure, Outcome
from perftrend.bisect.state import State, Strategy
from perftrend.model import Measured, Sampled

_IMAGINED = 8
"""Maximum number of imagined measurements: evaluating a strategy takes time."""
_CHANGE = 0.8
"""Assumed ratio of new to old before new was measured: a clearly visible change."""
_NOTHING_YET = Measured(
    commit="",
    started=datetime(2000, 1, 1, tzinfo=UTC),
    finished=datetime(2000, 1, 1, tzinfo=UTC) + timedelta(minutes=1),
    values={"": Sampled((1.0,))},
)


def likely(strategy: Strategy, state: State, step: Measure) -> Iterator[str]:
    """Yield the commits that will probably have to be built next, the most probable first.

    :param state: the current state.
    :param step: the current measurement.
    """
    order = count()
    told = {step.commit}
    courses = [(-share, next(order), after) for share, after in _imagined(state, step)]
    heapq.heapify(courses)
    for _ in range(_IMAGINED):
        if not courses:
            return
        weight, _, known = heapq.heappop(courses)
        asked = strategy.next(known)
        if isinstance(asked, Outcome):
            continue
        if asked.commit not in known.built and asked.commit not in told:
            told.add(asked.commit)
            yield asked.commit
        for share, after in _imagined(known, asked):
            heapq.heappush(courses, (weight * share, next(order), after))


def _imagined(state: State, step: Measure) -> list[tuple[float, State]]:
    """Return the possible states after a measurement, with their probabilities."""
    own = _last(state, step.commit)
    old = _last(state, state.range.old) or _NOTHING_YET
    new = _last(state, state.history.new) or _changed(old)
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


def _last(state: State, commit: str) -> Measured | None:
    return next((each for each in reversed(state.measured) if each.commit == commit), None)


def _changed(old: Measured) -> Measured:
    values = {
        test: replace(each, samples=tuple(_CHANGE * sample for sample in each.samples))
        for test, each in old.values.items()
    }
    return replace(old, values=values)


def _after_the_change(state: State, step: Measure) -> float:
    """Return the probability that a commit contains the change; a half if the step has no belief."""
    if step.commit == state.range.old:
        return 0.0
    if not step.belief:
        return 0.5
    contained = set(state.history.hashes(state.history.contained(step.commit)))
    shares = (
        each.probability * len(contained.intersection(each.commits)) / len(each.commits)
        for each in step.belief
        if each.commits
    )
    return min(sum(shares), 1.0)
