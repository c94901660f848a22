"""Findings: changes or missing data in one trace, and the commits between which they began.

The commits of a testbed are in the order of time, each at the moment when it was first measured. A change
is after the last good commit and no later than the first changed one: the range (last good, first changed].
Two ranges overlap if one commit may be the reason for both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from perftrend.model import finite


class FindingKind(StrEnum):
    """The kinds of findings; findings of different kinds are never grouped."""

    REGRESSION = "regression"
    PROGRESSION = "progression"
    SILENCE = "silence"
    """A trace that had values has stopped having any."""
    STOPPED = "stopped"
    """A testbed that had runs has stopped having any."""


CHANGES = (FindingKind.REGRESSION, FindingKind.PROGRESSION)


@dataclass(frozen=True, slots=True, order=True)
class MeasuredCommit:
    """A commit as a testbed measured it."""

    moment: datetime
    """When it was first measured, UTC."""
    revision: str = field(default="", compare=False)
    """Its hash; empty if not known."""


@dataclass(frozen=True, slots=True)
class SuspectRange:
    """The commits after ``last_good`` up to ``first_changed``, of which one is the reason.

    :raises ValueError: if there is no such commit.
    """

    last_good: MeasuredCommit
    first_changed: MeasuredCommit

    def __post_init__(self) -> None:
        if not self.last_good < self.first_changed:
            raise ValueError(f"there is no commit after {self.last_good} and up to {self.first_changed}")

    def overlaps(self, other: SuspectRange) -> bool:
        """Whether some commit is in both."""
        return self.last_good < other.first_changed and other.last_good < self.first_changed

    def within(self, other: SuspectRange) -> SuspectRange:
        """Return the commits that are in both; they must overlap."""
        return SuspectRange(
            max(self.last_good, other.last_good), min(self.first_changed, other.first_changed)
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding in one trace, or in a whole testbed."""

    kind: FindingKind
    trace: str
    """The hash of its key; empty for a testbed."""
    range: SuspectRange
    near: SuspectRange
    """A wider range: a finding of another night that overlaps it is the same finding."""
    before: float = math.nan
    """Average before the change, in the unit of the trace; for missing data the last value."""
    after: float = math.nan
    low: float = math.nan
    """The least value of ``after - before`` at 95 %; NaN if not known."""
    high: float = math.nan
    confidence: float = math.nan
    """One less the probability that noise alone causes it; NaN if not known."""
    silent_since: MeasuredCommit | None = None
    """For missing data: the commit at which it had lasted long enough to be reported."""

    @property
    def noticed(self) -> MeasuredCommit:
        """The first commit at which it could be reported."""
        return self.silent_since or self.range.first_changed

    @property
    def numbers(self) -> dict[str, float | None]:
        """The numbers of the change, by name; None if not known."""
        names = ("before", "after", "low", "high", "confidence")
        return {name: finite(getattr(self, name)) for name in names}

    @property
    def relative(self) -> float:
        """The step relative to the value before; NaN if that was zero."""
        return (self.after - self.before) / abs(self.before) if self.before else math.nan


@dataclass(frozen=True, slots=True)
class Threshold:
    """The conditions for reporting a change."""

    change: float = 0.01
    """Relative to the value before."""
    confidence: float = 0.0
    """0: not required; otherwise, an unknown confidence is too low."""

    def passes(self, finding: Finding) -> bool:
        """Whether a finding is reported; missing data always is. A step from zero passes any threshold."""
        if finding.kind not in CHANGES:
            return True
        is_large = math.isnan(finding.relative) or abs(finding.relative) >= self.change
        return is_large and (not self.confidence or finding.confidence >= self.confidence)


def largest(findings: Iterable[Finding]) -> Finding | None:
    """Return the finding with the largest relative step; of equal ones that of the first trace by hash."""
    return min(findings, key=lambda each: (-_size(each), each.trace), default=None)


def _size(finding: Finding) -> float:
    return 0.0 if math.isnan(finding.relative) else abs(finding.relative)
