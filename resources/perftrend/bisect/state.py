"""The state of a bisection: the range, what was built and measured so far, its next steps and its outcome.

The next commits can be built while another one is measured, so they are predicted. A strategy is a function
of the state. So it is evaluated for states in which the current measurement gives the result of old, or that
of new, and repeatedly from there, until it chooses commits that are not built yet. The more probable course
is followed first. The prediction only affects what is prepared, never a decision.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property
from itertools import count
from typing import Any, Protocol

from perftrend.bisect import history
from perftrend.bisect.history import CommitHistory
from perftrend.model import Better, BuildMeasurement, Direction, MetricSamples

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


class OutcomeKind(StrEnum):
    """How a bisection ended."""

    FOUND = "found"
    """At least one change was found, each with its commit or the smallest set that holds it."""
    NO_DIFFERENCE = "no difference shown"
    """Old and new do not differ, according to the measurements."""
    UNDECIDED = "undecided"
    """The permitted measurements were made, without a certain result."""
    NOT_BUILT = "not built"
    """Old or new cannot be built, so there is nothing to compare."""


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a change on one test."""

    before: float
    """The level before the change, in the unit of the test; NaN if it failed."""
    after: float
    relative: float
    """The difference relative to ``before``; NaN if it is undefined."""
    low: float = math.nan
    """The difference is between low and high at 95 %; NaN if unknown."""
    high: float = math.nan
    probability: float = math.nan
    """The probability that the change affects this test; NaN if unknown."""

    def direction(self, better: Better) -> Direction | None:
        """Return the direction; None if nothing changed. A test that fails from then on regressed."""
        before_fails, after_fails = math.isnan(self.before), math.isnan(self.after)
        if before_fails or after_fails:
            if before_fails == after_fails:
                return None
            return Direction.REGRESSION if after_fails else Direction.PROGRESSION
        if self.before == self.after:
            return None
        good = (self.after > self.before) == (better is Better.HIGHER)
        return Direction.PROGRESSION if good else Direction.REGRESSION


@dataclass(frozen=True, slots=True)
class Culprit:
    """A change, and its location."""

    commits: tuple[str, ...]
    """One commit; or, oldest first, the smallest set that holds it if commits between do not build."""
    confidence: float = math.nan
    """The probability that it is among these; NaN if the strategy has none."""
    effects: Mapping[str, Effect] = field(default_factory=dict, hash=False)
    """By test, including tests that are not affected."""


@dataclass(frozen=True, slots=True)
class MeasureStep:
    """The next step: build a commit, unless it is built, and measure it once."""

    commit: str
    reason: str
    """The reason, in one sentence for users."""
    belief: tuple[Suspicion, ...] = ()
    """The probable locations of the change when this was chosen."""
    against: str = ""
    """The other commit of the pair that this measurement is part of, to confirm a suspicion; or empty."""
    remaining: int | None = None
    """Estimated number of measurements until a commit is named, including this one; None if unknown."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """The probability that a change is among some commits."""

    commits: tuple[str, ...]
    """Oldest first; empty for the probability of no change."""
    probability: float


@dataclass(frozen=True, slots=True)
class BisectOutcome:
    """The outcome of a bisection."""

    kind: OutcomeKind
    reason: str
    """The reason why it ended, in one sentence for users."""
    culprits: tuple[Culprit, ...] = ()
    """The largest change first."""
    belief: tuple[Suspicion, ...] = ()
    """The probable locations of changes, oldest first, after the probability of no change."""
    smallest_visible: Mapping[str, float] = field(default_factory=dict, hash=False)
    """By test, the smallest relative difference of old and new that these measurements would have shown, or,
    if changes were found, the smallest further one."""
    outliers: Mapping[str, tuple[int, ...]] = field(default_factory=dict, hash=False)
    """By test, the measurements that were treated as outliers, counted from 0."""
    remaining: int | None = None
    """If undecided: estimated number of measurements until a commit is named; None if unknown."""


@dataclass(frozen=True, slots=True)
class RangeCommit:
    """A commit of the range."""

    hash: str
    parents: tuple[str, ...]


@dataclass(frozen=True)
class CommitRange:
    """The commits to search.

    :raises UsageError: from ``history``, if they are not a valid range, see :class:`CommitHistory`.
    """

    old: str
    commits: tuple[RangeCommit, ...]
    """Oldest first, see :class:`CommitHistory`; the last is the new one."""
    first_parent: bool = False

    @classmethod
    def of(
        cls, old: str, commits: Sequence[history.HistoryCommit], *, first_parent: bool = False
    ) -> CommitRange:
        """Create a range from a repository's own kind of commits."""
        return cls(old, tuple(RangeCommit(each.hash, tuple(each.parents)) for each in commits), first_parent)

    @cached_property
    def history(self) -> CommitHistory:
        """How the commits descend from each other."""
        return CommitHistory(self.old, self.commits, first_parent=self.first_parent)


@dataclass(frozen=True)
class BisectState:
    """The content of a session's records; strategies use nothing else."""

    range: CommitRange
    built: Mapping[str, float] = field(default_factory=dict)
    """Duration in seconds, for each commit that was built."""
    broken: Mapping[str, str] = field(default_factory=dict)
    """The reason, for each commit that could not be built."""
    measured: tuple[BuildMeasurement, ...] = ()
    """In the order of measuring."""
    steps: tuple[MeasureStep, ...] = ()
    """The decided measurements, including the unfinished last one."""

    @property
    def history(self) -> CommitHistory:
        """How the commits descend from each other."""
        return self.range.history

    def with_built(self, commit: str, seconds: float) -> BisectState:
        """Return the state after a build."""
        return replace(self, built={**self.built, commit: seconds})

    def with_broken(self, commit: str, reason: str) -> BisectState:
        """Return the state after a build that failed."""
        return replace(self, broken={**self.broken, commit: reason})

    def with_measured(self, measured: BuildMeasurement, against: str = "") -> BisectState:
        """Return the state after a measurement.

        :param against: the other commit of its pair; by default, that of the measurement.
        """
        measured = replace(measured, against=against or measured.against)
        return replace(self, measured=_by_test((*self.measured, measured)))

    def with_step(self, step: MeasureStep) -> BisectState:
        """Return the state after a decision."""
        return replace(self, steps=(*self.steps, step))

    def samples(self, commit: str) -> dict[str, list[float]]:
        """Return all samples of a commit by test; tests that failed have none."""
        found: dict[str, list[float]] = {}
        for each in self.measured:
            if each.commit == commit:
                for test, sampled in each.values.items():
                    found.setdefault(test, []).extend(sampled.samples)
                for test in each.failed:
                    found.setdefault(test, [])
        return found

    @property
    def compared(self) -> frozenset[str]:
        """The tests that were run at both ends of the range."""
        early, late = (self.samples(end) for end in (self.range.old, self.history.new))
        return frozenset(early.keys() & late.keys())

    def adjacent_commits(self, culprit: Culprit) -> tuple[str, str]:
        """Return the last measured commit before a change, and the first one with it."""
        inside = 0
        for each in culprit.commits:
            inside |= 1 << self.history.index(each)
        leading = self.history.reachable_from(culprit.commits[-1])
        done = {each.commit: self.history.reachable_from(each.commit) for each in self.measured}
        before = [name for name, held in done.items() if not held & inside and not held & ~leading]
        after = [name for name, held in done.items() if held & inside == inside]
        return (
            max(before, key=self.history.index, default=self.range.old),
            min(after, key=self.history.index, default=self.history.new),
        )

    def times_measured(self, commit: str) -> int:
        """Return the number of measurements of a commit."""
        return sum(each.commit == commit for each in self.measured)


def _by_test(measured: tuple[BuildMeasurement, ...]) -> tuple[BuildMeasurement, ...]:
    """Count the failure of a whole measurement as a failure of each test.

    A command reports the names of its tests with the values. If it fails, the failure has another name.
    """
    tests = dict.fromkeys(test for each in measured for test in each.values)

    def named(each: BuildMeasurement) -> BuildMeasurement:
        if not tests or each.values or not each.failed or each.failed.keys() & tests.keys():
            return each
        return replace(each, failed=dict.fromkeys(tests, next(iter(each.failed.values()))))

    return tuple(map(named, measured))


class Strategy(Protocol):
    """A function of the state alone, so that a session can be replayed."""

    @property
    def name(self) -> str:
        """``adaptive`` or ``documented``."""

    @property
    def options(self) -> Mapping[str, Any]:
        """The parameters that are recorded in the session's file: plain values of JSON."""

    def next(self, state: BisectState) -> MeasureStep | BisectOutcome:
        """Return the next measurement, or the outcome."""


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
