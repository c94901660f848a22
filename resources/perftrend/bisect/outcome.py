"""What a bisection does next, and what it says at its end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from perftrend.model import Better, Direction


class Kind(StrEnum):
    """How a bisection ended."""

    FOUND = "found"
    """One change at least was found, each with its commit or the smallest set that holds it."""
    NO_DIFFERENCE = "no difference shown"
    """Old and new do not differ, as far as was measured."""
    UNDECIDED = "undecided"
    """The measurements that may be made were made, and none is sure enough."""
    NOT_BUILT = "not built"
    """Old or new cannot be built, so there is nothing to compare."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a change did to one test."""

    before: float
    """The level before the change, in the unit of the test; NaN where it failed."""
    after: float
    relative: float
    """The difference relative to ``before``; NaN where there is none."""
    low: float = math.nan
    """The difference lies between low and high at 95 %; NaN where that is not known."""
    high: float = math.nan
    probability: float = math.nan
    """How probable it is that the change affects this test; NaN where that is not known."""

    def direction(self, better: Better) -> Direction | None:
        """Name the change; None where there is none. A test that fails from then on regressed."""
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
    """A change, and where it is."""

    commits: tuple[str, ...]
    """One commit; or, oldest first, the smallest set that holds it where commits between do not build."""
    confidence: float = math.nan
    """The probability that it is among these; NaN where the strategy knows none."""
    effects: Mapping[str, Effect] = field(default_factory=dict, hash=False)
    """By test; those that are not affected are told, too."""


@dataclass(frozen=True, slots=True)
class Measure:
    """The next step: build a commit, unless that is done, and measure it once."""

    commit: str
    reason: str
    """Why, in one sentence for a person."""
    belief: tuple[Suspicion, ...] = ()
    """Where the change was thought to be when this was chosen."""
    against: str = ""
    """The other commit of the pair that this is measured in, to confirm a suspicion; empty if in none."""
    remaining: int | None = None
    """About how many more measurements will name a commit, this one included; None if that is not known."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """How probable it is that a change is among some commits."""

    commits: tuple[str, ...]
    """Oldest first; empty: there is none at all."""
    probability: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a bisection says at its end."""

    kind: Kind
    reason: str
    """Why it ended, in one sentence for a person."""
    culprits: tuple[Culprit, ...] = ()
    """The largest change first."""
    belief: tuple[Suspicion, ...] = ()
    """Where changes are thought to be, oldest first, the chance of none at all before them."""
    smallest_visible: Mapping[str, float] = field(default_factory=dict, hash=False)
    """By test, the smallest relative difference of old and new that these measurements would have shown, or,
    where changes were found, the smallest further one."""
    outliers: Mapping[str, tuple[int, ...]] = field(default_factory=dict, hash=False)
    """By test, which measurements, counted from 0, were taken for outliers."""
    remaining: int | None = None
    """If undecided: about how many more measurements will name a commit; None if that is not known."""
