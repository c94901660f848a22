"""The state of a bisection: the range, what was built and measured so far, its next step and its outcome."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, Protocol

from perftrend.bisect import history
from perftrend.bisect.history import CommitHistory
from perftrend.model import Better, BuildMeasurement, Direction


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
