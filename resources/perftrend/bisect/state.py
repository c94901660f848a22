"""The state of a bisection: the requested range, and what was built and measured so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

from perftrend.bisect import history
from perftrend.bisect.history import CommitHistory
from perftrend.bisect.outcome import BisectOutcome, MeasureStep
from perftrend.model import BuildMeasurement


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
