"""The next step of a bisection, and its outcome."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from perftrend.model import Better, Direction


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
