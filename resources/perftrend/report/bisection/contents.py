"""What the reports of a bisection are made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from perftrend.analysis.comparison import Documented, documented
from perftrend.bisect import Culprit, Effect, Outcome, State
from perftrend.model import Better, Direction, Sampled
from perftrend.model import Outcome as Classification


@dataclass(frozen=True, slots=True)
class Named:
    """A commit, as people know it."""

    subject: str
    author: str


@dataclass(frozen=True, slots=True)
class Subject:
    """Where was searched, and on what."""

    testbed: str
    change: int | None = None
    """Number in Gerrit; None where two commits were named."""
    patch_set: int | None = None
    page: str = ""
    """Address of the change."""
    simulated: bool = False
    """Whether no packet was sent."""


@dataclass(frozen=True, slots=True)
class Report:
    """How a bisection ended, and how it came about."""

    outcome: Outcome
    state: State
    subject: Subject
    names: Mapping[str, Named] = field(hash=False)
    """Of the commits, by hash."""
    job: str
    build: int
    strategy: str
    formula: str
    """Description length of the documented comparison."""
    confidence: float
    link: str = ""
    """Where the whole report can be read; empty where that is nowhere."""
    archive: str = ""
    """Where the files of all measurements are: a path or an address."""
    notices: Sequence[str] = ()
    """What a reader must be told besides."""
    command: str = ""
    """What does the same by hand."""
    diffs: Mapping[str, Sequence[str]] = field(default_factory=dict, hash=False)
    """The first lines of what a commit changed, by hash, of those that are named."""
    last_lines: Sequence[str] = ()
    """What an end of the range that does not build said last."""

    @property
    def started(self) -> datetime | None:
        """When the first measurement began; None where there is none."""
        return min((each.started for each in self.state.measured), default=None)

    @property
    def finished(self) -> datetime | None:
        """When the last measurement ended."""
        return max((each.finished for each in self.state.measured), default=None)

    @property
    def tests(self) -> tuple[str, ...]:
        """All tests that were measured, by name."""
        return tuple(sorted({test for each in self.state.measured for test in (*each.values, *each.failed)}))

    def sampled(self, test: str) -> Sampled:
        """Return what one measurement gave for a test: it knows the unit, and which direction is good."""
        found = (each.values[test] for each in self.state.measured if test in each.values)
        return next(found, Sampled(()))

    def affected(self, culprit: Culprit) -> dict[str, Effect]:
        """Return the tests that a change is known to have moved, with what it did, the largest first.

        Of a strategy that knows no probabilities, the documented comparison says which these are.
        """
        moved = {
            test: effect
            for test, effect in culprit.effects.items()
            if self.direction(test, effect) and self._is_affected(culprit, test, effect)
        }
        return dict(sorted(moved.items(), key=lambda item: (-_size(item[1]), item[0])))

    def _is_affected(self, culprit: Culprit, test: str, effect: Effect) -> bool:
        if not math.isnan(effect.probability):
            return effect.probability >= _LIKELY
        return self.compared(test, *self.beside(culprit)).classification is not Classification.NORMAL

    def compared(self, test: str, before: str, after: str) -> Documented:
        """Compare a test in two commits as documented."""
        one, other = (self.state.samples(commit).get(test, ()) for commit in (before, after))
        return documented(one, other, formula=self.formula, better=self.better(test))

    def beside(self, culprit: Culprit) -> tuple[str, str]:
        """Return the last measured commit before a change, and the first one that has it."""
        history = self.state.history
        inside = 0
        for each in culprit.commits:
            inside |= 1 << history.index(each)
        leading = history.contained(culprit.commits[-1])
        done = {each.commit: history.contained(each.commit) for each in self.state.measured}
        before = [name for name, held in done.items() if not held & inside and not held & ~leading]
        after = [name for name, held in done.items() if held & inside == inside]
        return (
            max(before, key=history.index, default=self.state.range.old),
            min(after, key=history.index, default=history.new),
        )

    def direction(self, test: str, effect: Effect) -> Direction | None:
        """Say whether an effect is good or bad news."""
        return effect.direction(self.better(test))

    def better(self, test: str) -> Better:
        """Return which direction of a test is good."""
        return self.sampled(test).better

    def worsened(self, culprit: Culprit) -> bool:
        """Whether a change made a test worse."""
        return any(
            self.direction(test, effect) is Direction.REGRESSION
            for test, effect in self.affected(culprit).items()
        )

    @property
    def regressed(self) -> bool:
        """Whether a change was found that made a test worse."""
        return any(map(self.worsened, self.outcome.culprits))


_LIKELY = 0.5
"""A test that a change affects with a smaller probability is not said to be affected."""


def _size(effect: Effect) -> float:
    """Return how large an effect is; a test that fails on one side has changed the most."""
    return abs(effect.relative) if math.isfinite(effect.relative) else math.inf
