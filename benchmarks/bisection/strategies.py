"""The strategies by name: ``adaptive``, ``documented-5``, ``threshold-5``, ``bayesect-99``.

Options follow: ``adaptive,confidence=0.995,inside=true``.

The last two are alternative tools: ``git bisect run`` with a threshold, and git_bayesect from PyPI. Both use
only good and bad, by a threshold halfway between the averages of old and new, for the first test.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from git_bayesect import Bisector  # type: ignore[import-untyped]  # it has no types

from perftrend.bisect import (
    Adaptive,
    BisectOutcome,
    BisectState,
    CsitHalving,
    Culprit,
    MeasureStep,
    OutcomeKind,
    Strategy,
)

EQUAL = "documented"
"""The CSIT strategy with enough measurements of each build to be as reliable as the first one."""
DEFAULT = ("adaptive", "documented-1", "documented-5", "threshold-5", "bayesect-99", EQUAL)


@dataclass(frozen=True, slots=True)
class Unhurried:
    """A strategy that measures each build ``repeats`` times, and is not called in between."""

    strategy: Strategy
    repeats: int

    @property
    def name(self) -> str:
        """The name of the strategy."""
        return self.strategy.name

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of the strategy."""
        return self.strategy.options

    def next(self, state: BisectState) -> MeasureStep | BisectOutcome:
        """Return the step of the strategy, or the last one until its build was measured often enough."""
        if state.steps:
            last = state.steps[-1]
            if last.commit not in state.broken and state.times_measured(last.commit) < self.repeats:
                return last
        return self.strategy.next(state)


@dataclass(frozen=True, slots=True)
class Threshold:
    """``git bisect run``.

    :param repeats: measurements of every build, whose average is compared.
    """

    repeats: int = 1

    @property
    def name(self) -> str:
        """Its name in the table."""
        return "threshold"

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of its constructor."""
        return asdict(self)

    def next(self, state: BisectState) -> MeasureStep | BisectOutcome:
        """Follow git through all measurements, up to the missing one."""
        old, new = state.range.old, state.history.new
        if step := _threshold_lacks(state, self.repeats):
            return step
        levels = _average(state, old), _average(state, new)
        threshold = sum(levels) / 2
        good, bad = [old], new
        while True:
            halving = state.history.next_commit(good=good, bad=bad, skipped=state.broken)
            if halving.commit is None:
                return BisectOutcome(OutcomeKind.FOUND, "git found it", (Culprit(halving.suspects),))
            if state.times_measured(halving.commit) < self.repeats:
                return MeasureStep(halving.commit, "git chose it")
            if (_average(state, halving.commit) > threshold) == (levels[0] > levels[1]):
                good.append(halving.commit)
            else:
                bad = halving.commit


@dataclass(frozen=True, slots=True)
class Bayesect:
    """``git bayesect run``: Bayesian inference on good and bad, with unknown rates of both before and after.

    It assumes exactly one change, a threshold without an error, and results that do not depend on time. It
    uses only the mainline, so that it blames the merge for a change on a branch. Old and new are measured
    three times each; they determine the threshold, and count as results.

    :param confidence: of the most suspected commit, at which it stops.
    :param maximum_measurements: after this number it ends, with no commit named.
    """

    confidence: float = 0.99
    maximum_measurements: int = 300
    ends: int = 3

    @property
    def name(self) -> str:
        """Its name in the table."""
        return "bayesect"

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of its constructor."""
        return asdict(self)

    def next(self, state: BisectState) -> MeasureStep | BisectOutcome:
        """Return the choice of git_bayesect, which knows that a commit that does not build is innocent."""
        old, new = state.range.old, state.history.new
        if step := _threshold_lacks(state, self.ends):
            return step
        line = _mainline(state)
        bisector = Bisector([1.0] * len(line))
        place = {commit: index for index, commit in enumerate(line)}
        # git_bayesect expects new first, and old last.
        levels = _levels(state)
        before, after = (math.fsum(levels[end][: self.ends]) / self.ends for end in (old, new))
        for commit, known in levels.items():
            for level in known:
                bisector.record(place[commit], (level > (before + after) / 2) == (after > before))
        for commit in state.broken:
            bisector.record(place[commit], None)
        # It computes logarithms of the weight 0 of commits that do not build, and ignores the result.
        with np.errstate(divide="ignore", invalid="ignore"):
            probability, chosen = bisector.distribution, int(bisector.select())
        best = int(probability.argmax())
        if probability[best] >= self.confidence:
            culprit = Culprit(_hidden(line, best, state), float(probability[best]))
            return BisectOutcome(OutcomeKind.FOUND, "git bayesect found it", (culprit,))
        if len(state.measured) >= self.maximum_measurements:
            return BisectOutcome(OutcomeKind.UNDECIDED, "too many measurements")
        return MeasureStep(_buildable(line, chosen, state), "git bayesect chose it")


def strategy_named(name: str) -> Strategy:
    """Return the strategy with a name.

    :raises ValueError: if no strategy has that name, or an option is not valid JSON.
    :raises TypeError: if it has no such option.
    """
    kind, *given = name.split(",")
    options: dict[str, Any] = {}
    for each in given:
        key, _, value = each.partition("=")
        options[key] = json.loads(value)
    base, _, number = kind.partition("-")
    if kind == "adaptive":
        return Adaptive(**options)
    if base == "documented":
        return Unhurried(CsitHalving(repeats=int(number), **options), int(number))
    if base == "threshold":
        return Unhurried(Threshold(int(number), **options), int(number))
    if base == "bayesect":
        return Bayesect(int(number) / 100, **options)
    raise ValueError(name)


def _threshold_lacks(state: BisectState, times: int) -> MeasureStep | None:
    """Return an end that was measured fewer than ``times`` times; None if both were measured enough."""
    for end in (state.range.old, state.history.new):
        if state.times_measured(end) < times:
            return MeasureStep(end, "determines the threshold")
    return None


def _mainline(state: BisectState) -> list[str]:
    """Return new and the commits before it, along first parents, to old."""
    first = {each.hash: each.parents[0] for each in state.range.commits}
    line = [state.history.new]
    while line[-1] in first:
        line.append(first[line[-1]])
    return line


def _buildable(line: list[str], chosen: int, state: BisectState) -> str:
    """Return a commit of a line; if it does not build, the neighbour that was measured less often.

    git_bayesect would choose it again and again.
    """
    newer = next(each for each in line[chosen::-1] if each not in state.broken)
    older = next(each for each in line[chosen:] if each not in state.broken)
    return min((newer, older), key=state.times_measured)


def _hidden(line: list[str], chosen: int, state: BisectState) -> tuple[str, ...]:
    """Return a commit of a line with those just before it that do not build, as a user would report it."""
    found = [line[chosen]]
    for commit in line[chosen + 1 :]:
        if commit not in state.broken:
            break
        found.append(commit)
    return tuple(reversed(found))


def _levels(state: BisectState) -> dict[str, list[float]]:
    """Return the average of each measurement of the first test, by commit; 0 if it failed."""
    found: dict[str, list[float]] = {}
    for each in state.measured:
        samples = next((value.samples for value in each.values.values()), (0.0,))
        found.setdefault(each.commit, []).append(math.fsum(samples) / len(samples))
    return found


def _average(state: BisectState, commit: str) -> float:
    levels = _levels(state)[commit]
    return math.fsum(levels) / len(levels)
