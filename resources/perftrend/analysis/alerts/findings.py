"""Findings: what was found in one trace, and between which commits it lies.

The commits of a testbed are in the order of time, each at the moment when it was first measured. A change
lies after the last good commit and no later than the first changed one: the range (last good, first changed].
Two ranges overlap where one commit may be the reason for both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from perftrend.model import finite


class Kind(StrEnum):
    """What was found; findings of different kinds are never put together."""

    REGRESSION = "regression"
    PROGRESSION = "progression"
    SILENCE = "silence"
    """A trace that had values has none any more."""
    STOPPED = "stopped"
    """A testbed that had runs has none any more."""


CHANGES = (Kind.REGRESSION, Kind.PROGRESSION)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A commit as a testbed measured it."""

    moment: datetime
    """When it was first measured, UTC."""
    revision: str = field(default="", compare=False)
    """Its hash; empty where that is not known."""


@dataclass(frozen=True, slots=True)
class Range:
    """The commits after ``last_good`` up to ``first_changed``, of which one is the reason.

    :raises ValueError: if there is none.
    """

    last_good: Place
    first_changed: Place

    def __post_init__(self) -> None:
        if not self.last_good < self.first_changed:
            raise ValueError(f"no commit lies after {self.last_good} and up to {self.first_changed}")

    def overlaps(self, other: Range) -> bool:
        """Whether some commit lies in both."""
        return self.last_good < other.first_changed and other.last_good < self.first_changed

    def within(self, other: Range) -> Range:
        """Return the commits that lie in both; they must overlap."""
        return Range(max(self.last_good, other.last_good), min(self.first_changed, other.first_changed))


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that was found in one trace, or in a whole testbed."""

    kind: Kind
    trace: str
    """The hash of its key; empty for a testbed."""
    range: Range
    near: Range
    """Wider: what overlaps it is the same finding, a night earlier or later."""
    before: float = math.nan
    """Average before the change, in the unit of the trace; of a silence the last value."""
    after: float = math.nan
    low: float = math.nan
    """The least value of ``after - before`` at 95 %; NaN where that is not known."""
    high: float = math.nan
    confidence: float = math.nan
    """One less the probability that noise alone does it; NaN where that is not known."""
    silent_since: Place | None = None
    """A silence: where it had lasted long enough to be told."""

    @property
    def noticed(self) -> Place:
        """The first commit at which it could be told."""
        return self.silent_since or self.range.first_changed

    @property
    def numbers(self) -> dict[str, float | None]:
        """What is known of the change, by name; None for what is not."""
        names = ("before", "after", "low", "high", "confidence")
        return {name: finite(getattr(self, name)) for name in names}

    @property
    def relative(self) -> float:
        """The step relative to what was before; NaN where that was zero."""
        return (self.after - self.before) / abs(self.before) if self.before else math.nan


@dataclass(frozen=True, slots=True)
class Threshold:
    """From when on a change is told."""

    change: float = 0.01
    """Relative to the value before."""
    confidence: float = 0.0
    """0: it is not asked for; else what is not known is too little."""

    def passes(self, finding: Finding) -> bool:
        """Whether a finding is told; silence always is. A step from zero is larger than any threshold."""
        if finding.kind not in CHANGES:
            return True
        is_large = math.isnan(finding.relative) or abs(finding.relative) >= self.change
        return is_large and (not self.confidence or finding.confidence >= self.confidence)


def largest(findings: Iterable[Finding]) -> Finding | None:
    """Return the finding with the largest relative step; of equal ones that of the first trace by hash."""
    return min(findings, key=lambda each: (-_size(each), each.trace), default=None)


def _size(finding: Finding) -> float:
    return 0.0 if math.isnan(finding.relative) else abs(finding.relative)
