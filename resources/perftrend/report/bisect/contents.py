"""The contents of the reports of a bisection."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from perftrend.analysis.comparison import CsitComparison, compare_by_mdl
from perftrend.bisect import BisectOutcome, BisectState, Culprit, Effect
from perftrend.model import Better, Direction, MetricSamples
from perftrend.model import Outcome as Classification
from perftrend.settings import Settings

_LIKELY = 0.5
"""A test with a smaller probability of being affected is not reported as affected."""


@dataclass(frozen=True, slots=True)
class NamedCommit:
    """The subject and the author of a commit."""

    subject: str
    author: str


@dataclass(frozen=True, slots=True)
class BisectSubject:
    """The testbed and the change of a search."""

    testbed: str
    change: int | None = None
    """Number in Gerrit; None if two commits were named."""
    patch_set: int | None = None
    page: str = ""
    """URL of the change."""
    simulated: bool = False
    """Whether no packet was sent."""


@dataclass(frozen=True, slots=True)
class BisectReport:
    """The outcome of a bisection, and its measurements."""

    outcome: BisectOutcome
    state: BisectState
    subject: BisectSubject
    names: Mapping[str, NamedCommit] = field(hash=False)
    """The commits, by hash."""
    job: str
    build: int
    strategy: str
    formula: str
    """Formula of the description length in the CSIT comparison."""
    confidence: float
    link: str = ""
    """URL of the whole report; empty if it has none."""
    archive: str = ""
    """Location of the files of all measurements: a path or a URL."""
    notices: Sequence[str] = ()
    """Further notices for readers."""
    command: str = ""
    """The command line that repeats the search."""
    diffs: Mapping[str, Sequence[str]] = field(default_factory=dict, hash=False)
    """The first lines of the diffs of named commits, by hash."""
    last_lines: Sequence[str] = ()
    """The last output of an end of the range that does not build."""
    settings: Settings | None = field(default=None, hash=False, compare=False, repr=False)
    """Addresses of Gerrit and the dashboard, and the words of requests; None: none of them."""

    @property
    def started(self) -> datetime | None:
        """The start of the first measurement; None if there is none."""
        return min((each.started for each in self.state.measured), default=None)

    @property
    def finished(self) -> datetime | None:
        """The end of the last measurement; None if there is none."""
        return max((each.finished for each in self.state.measured), default=None)

    @property
    def tests(self) -> tuple[str, ...]:
        """All tests that were measured, by name."""
        return tuple(sorted({test for each in self.state.measured for test in (*each.values, *each.failed)}))

    def any_samples(self, test: str) -> MetricSamples:
        """Return one measured value of a test, for its unit and for which direction is better."""
        found = (each.values[test] for each in self.state.measured if test in each.values)
        return next(found, MetricSamples(()))

    def affected_tests(self, culprit: Culprit) -> dict[str, Effect]:
        """Return the tests that a change affects, with its effect on each, the largest first.

        If the strategy has no probabilities, the CSIT comparison decides which tests are affected.
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
        return self.compare(test, *self.adjacent_commits(culprit)).classification is not Classification.NORMAL

    def compare(self, test: str, before: str, after: str) -> CsitComparison:
        """Compare a test in two commits with the CSIT method."""
        one, other = (self.state.samples(commit).get(test, ()) for commit in (before, after))
        return compare_by_mdl(one, other, formula=self.formula, better=self.better(test))

    def adjacent_commits(self, culprit: Culprit) -> tuple[str, str]:
        """Return the last measured commit before a change, and the first one with it."""
        history = self.state.history
        inside = 0
        for each in culprit.commits:
            inside |= 1 << history.index(each)
        leading = history.reachable_from(culprit.commits[-1])
        done = {each.commit: history.reachable_from(each.commit) for each in self.state.measured}
        before = [name for name, held in done.items() if not held & inside and not held & ~leading]
        after = [name for name, held in done.items() if held & inside == inside]
        return (
            max(before, key=history.index, default=self.state.range.old),
            min(after, key=history.index, default=history.new),
        )

    def direction(self, test: str, effect: Effect) -> Direction | None:
        """Return whether an effect is a regression or a progression; None if it is neither."""
        return effect.direction(self.better(test))

    def better(self, test: str) -> Better:
        """Return which direction of a test is better."""
        return self.any_samples(test).better

    def is_regression(self, culprit: Culprit) -> bool:
        """Return whether a change made a test worse."""
        return any(
            self.direction(test, effect) is Direction.REGRESSION
            for test, effect in self.affected_tests(culprit).items()
        )

    @property
    def regressed(self) -> bool:
        """Whether a change was found that made a test worse."""
        return any(map(self.is_regression, self.outcome.culprits))


def _size(effect: Effect) -> float:
    """Return the size of an effect; a test that fails on one side has changed the most."""
    return abs(effect.relative) if math.isfinite(effect.relative) else math.inf
