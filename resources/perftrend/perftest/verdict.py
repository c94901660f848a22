"""The rounds of a per-patch test, and the verdict on the patch: the result of each test, and its meaning.

In each round both builds are measured once. The rounds form blocks; within a block all orders of its
measurements have the same probability, so that noise does not appear as a difference: see
:mod:`perftrend.analysis.comparison.randomization`. The measure function is injected and may read results from
the archive: a job that was killed and is started again repeats the finished rounds in no time.

A test is compared by the values of both builds in all rounds. If there is nothing to compare, the finding
gives the reason: a test that fails with the patch alone counts against the patch; an invalid result
counts against neither build, and is measured again in the remaining rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TypeAlias

from perftrend import errors
from perftrend.analysis.comparison import (
    PARENT,
    PATCH,
    Comparison,
    Conclusion,
    CsitComparison,
    Design,
    Observation,
    compare,
    compare_by_mdl,
    decision_probability,
)
from perftrend.analysis.comparison.decision import CHANCE
from perftrend.analysis.instructions import InstructionDifference
from perftrend.model import NOT_VALID, Better, BuildMeasurement, MetricSamples

_NO_RESULT = "the measurement has no result for it"
_HOUR_S = 3600.0
_FEWEST = 2
"""The least number of measurements of each build for a comparison."""
_HOPEFUL = 0.1
"""If the vote is clear, an undecided test that is decided with at most this probability is not waited for."""


class BuildSide(StrEnum):
    """One of the two builds. The archive's folders have these names.

    Source: "Bisecting", section Basic operation.
    """

    PARENT = "parent"
    CURRENT = "current"
    """The patch."""


Measure: TypeAlias = Callable[[BuildSide, int], BuildMeasurement]
"""Measures a build in a round, counted from 1."""


@dataclass(frozen=True, slots=True)
class Round:
    """Both builds, each measured once."""

    parent: BuildMeasurement
    current: BuildMeasurement

    def __getitem__(self, side: BuildSide) -> BuildMeasurement:
        return self.parent if side is BuildSide.PARENT else self.current


def measure_rounds(measure: Measure, design: Design, *, seed: str) -> Iterator[Sequence[Round]]:
    """Yield all rounds up to now after each block, until the caller stops.

    :param seed: what distinguishes this comparison from others; the same one repeats the order.
    """
    done: dict[BuildSide, list[BuildMeasurement]] = {side: [] for side in BuildSide}
    for block in range(len(design.blocks)):
        for build in design.order(seed, block):
            side = BuildSide.PARENT if build == PARENT else BuildSide.CURRENT
            done[side].append(measure(side, len(done[side]) + 1))
        yield tuple(
            Round(*both) for both in zip(done[BuildSide.PARENT], done[BuildSide.CURRENT], strict=True)
        )


class PatchFinding(StrEnum):
    """The findings for a test; the worst first."""

    REGRESSION = "regression"
    FAILS = "fails with the patch"
    NOT_MEASURED = "not measured"
    UNDECIDED = "undecided"
    REPAIRED = "fails with the parent alone"
    PROGRESSION = "progression"
    SAME = "no difference"


_FINDINGS = {
    Conclusion.REGRESSION: PatchFinding.REGRESSION,
    Conclusion.PROGRESSION: PatchFinding.PROGRESSION,
    Conclusion.NO_DIFFERENCE: PatchFinding.SAME,
    Conclusion.UNDECIDED: PatchFinding.UNDECIDED,
}
_WORSE = frozenset({PatchFinding.REGRESSION, PatchFinding.FAILS})
_FINE = frozenset({PatchFinding.SAME, PatchFinding.PROGRESSION, PatchFinding.REPAIRED})


@dataclass(frozen=True, slots=True)
class PatchCriteria:
    """The parameters of a verdict."""

    threshold: float
    """The smallest difference that matters, relative to the parent."""
    confidence: float
    formula: str
    """Description length of the comparison by the CSIT method."""
    minimum_rounds: int
    """Values of each build before a test is decided; the rounds of the first block."""
    maximum_rounds: int
    """Rounds after which it is decided at the latest."""
    known_deviations: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """Standard deviation between runs in per cent, by test, if the history contains it."""

    @property
    def design(self) -> Design:
        """The order in which the builds are measured, and the rounds at which a verdict is possible."""
        return Design(self.minimum_rounds, self.maximum_rounds)


@dataclass(frozen=True, slots=True)
class PatchTestResults:
    """The results of one build for one test, round by round."""

    values: Mapping[int, MetricSamples]
    """By round, from 1."""
    failed: Mapping[int, str]
    """The rounds in which the test failed, and why."""
    untrusted: Mapping[int, str]
    """The rounds whose result is not valid, and why."""

    @property
    def samples(self) -> tuple[float, ...]:
        """All samples in the order of time."""
        return tuple(sample for sampled in self.values.values() for sample in sampled.samples)

    @property
    def is_broken(self) -> bool:
        """Whether the test fails with this build: it never gave a value, and most rounds were valid."""
        return not self.values and len(self.failed) > len(self.untrusted)


@dataclass(frozen=True, slots=True)
class PatchTestVerdict:
    """One test of both builds."""

    test: str
    finding: PatchFinding
    parent: PatchTestResults
    current: PatchTestResults
    comparison: Comparison | None = None
    """None if there is nothing to compare."""
    documented: CsitComparison | None = None
    """The comparison by description length, by the method in "Bisecting"."""
    chance: float = 0.0
    """The probability that the remaining rounds decide the test; 0 if it is decided."""
    is_settled: bool = True
    """Whether the test needs no further rounds."""
    may_be_layout: bool = False
    """Whether it is undecided because the position of code in memory may make the whole difference."""

    @property
    def change(self) -> float | None:
        """The relative difference, if the patch made the test worse or better; None if it did neither."""
        has_changed = self.finding in (PatchFinding.REGRESSION, PatchFinding.PROGRESSION)
        return self.comparison.relative if self.comparison and has_changed else None

    @property
    def unit(self) -> str:
        """The unit of its values."""
        return self._any.unit if self._any else "pps"

    @property
    def better(self) -> Better:
        """Which direction of the values is good."""
        return self._any.better if self._any else Better.HIGHER

    @property
    def _any(self) -> MetricSamples | None:
        return next(iter([*self.parent.values.values(), *self.current.values.values()]), None)

    @property
    def fails_at_times(self) -> bool:
        """Whether it fails in some rounds with the patch, and never with the parent."""
        return bool(self.current.failed and self.current.values and not self.parent.failed)


@dataclass(frozen=True, slots=True)
class Broken:
    """A build that failed."""

    side: BuildSide
    reason: str
    """Which step, and how."""
    last_lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PatchVerdict:
    """The verdict on a patch."""

    tests: tuple[PatchTestVerdict, ...] = ()
    """The worst first, and among equals the largest difference."""
    rounds: int = 0
    broken: Broken | None = None
    """A build that failed: nothing was measured then."""

    @property
    def is_settled(self) -> bool:
        """Whether no test needs further rounds."""
        return all(test.is_settled for test in self.tests)

    @property
    def vote(self) -> int:
        """-1: the patch makes something worse; 1: all was measured, and nothing is worse; 0: not known."""
        if self.broken:
            return -1 if self.broken.side is BuildSide.CURRENT else 0
        findings = {test.finding for test in self.tests}
        if findings & _WORSE:
            return -1
        return int(
            bool(findings) and findings <= _FINE and not any(test.fails_at_times for test in self.tests)
        )

    def exit_code(self, *, unstable: bool = False) -> int:
        """Return the exit code of the job.

        :param unstable: whether a regression makes the job unstable instead of failed.
        """
        if self.broken:
            return errors.EXIT_USAGE
        findings = {test.finding for test in self.tests}
        if findings & _WORSE:
            return errors.EXIT_UNSTABLE if unstable else errors.EXIT_REGRESSION
        is_whole = bool(findings) and PatchFinding.NOT_MEASURED not in findings
        return errors.EXIT_PASS if is_whole else errors.EXIT_TESTBED


def judge(rounds: Sequence[Round], tests: Sequence[str], criteria: PatchCriteria) -> PatchVerdict:
    """Compare both builds by all rounds up to now.

    :param tests: the names of all tests that should be measured.
    """
    judged = [_judge_test(test, rounds, criteria, tests=len(tests)) for test in tests]
    is_blamed = any(test.finding in _WORSE and not test.chance for test in judged)
    # Earlier, the probability may still be too low for a test with a real difference.
    is_late = 2 * len(rounds) >= criteria.maximum_rounds
    least = _HOPEFUL if is_blamed and is_late else CHANCE
    settled = [replace(test, is_settled=test.chance <= least) for test in judged]
    return PatchVerdict(tuple(sorted(settled, key=_rank)), len(rounds))


def doubt_layouts(verdict: PatchVerdict, instructions: InstructionDifference) -> PatchVerdict:
    """Leave tests undecided whose difference the position of code in memory alone may make."""
    tests = [
        replace(test, finding=PatchFinding.UNDECIDED, may_be_layout=True)
        if test.change is not None and instructions.may_be_layout(test.change)
        else test
        for test in verdict.tests
    ]
    return replace(verdict, tests=tuple(sorted(tests, key=_rank)))


def collect_results(test: str, side: BuildSide, rounds: Sequence[Round]) -> PatchTestResults:
    """Collect the results of one build for a test."""
    values, failed, untrusted = {}, {}, {}
    for number, each in enumerate(rounds, 1):
        measured = each[side]
        if test in measured.values:
            values[number] = measured.values[test]
            continue
        # A command that failed cannot list the tests that it would have reported.
        reason = measured.failed.get(test) or next(iter(measured.failed.values()), _NO_RESULT)
        if reason.startswith(NOT_VALID):
            untrusted[number] = reason.removeprefix(NOT_VALID)
        else:
            failed[number] = reason
    return PatchTestResults(values, failed, untrusted)


def _judge_test(
    test: str, rounds: Sequence[Round], criteria: PatchCriteria, *, tests: int
) -> PatchTestVerdict:
    parent, current = (collect_results(test, side, rounds) for side in BuildSide)
    if current.is_broken or parent.is_broken:
        finding = _judge_broken(parent, current)
        if finding is not PatchFinding.NOT_MEASURED or (current.is_broken and parent.is_broken):
            return PatchTestVerdict(test, finding, parent, current)
        is_open = bool(parent.untrusted or current.untrusted)
        return PatchTestVerdict(test, finding, parent, current, chance=float(is_open))
    if min(len(parent.values), len(current.values)) < _FEWEST:
        return PatchTestVerdict(test, PatchFinding.NOT_MEASURED, parent, current, chance=1.0)
    return _compare_test(test, rounds, parent, current, criteria, tests=tests)


def _judge_broken(parent: PatchTestResults, current: PatchTestResults) -> PatchFinding:
    if current.is_broken and len(parent.values) >= _FEWEST and not parent.failed:
        return PatchFinding.FAILS
    if parent.is_broken and len(current.values) >= _FEWEST and not current.failed:
        return PatchFinding.REPAIRED
    return PatchFinding.NOT_MEASURED


def _compare_test(
    test: str,
    rounds: Sequence[Round],
    parent: PatchTestResults,
    current: PatchTestResults,
    criteria: PatchCriteria,
    *,
    tests: int,
) -> PatchTestVerdict:
    better = next(iter(parent.values.values())).better
    observations = _observations(test, rounds)
    comparison = compare(
        observations,
        better=better,
        threshold=criteria.threshold,
        confidence=criteria.confidence,
        known_deviation=criteria.known_deviations.get(test),
        design=criteria.design,
        tests=tests,
    )
    enough = min(len(parent.values), len(current.values)) >= criteria.minimum_rounds
    return PatchTestVerdict(
        test,
        _FINDINGS[comparison.outcome],
        parent,
        current,
        comparison,
        compare_by_mdl(parent.samples, current.samples, formula=criteria.formula, better=better),
        chance=decision_probability(comparison, criteria.maximum_rounds - len(rounds)) if enough else 1.0,
    )


def _observations(test: str, rounds: Sequence[Round]) -> list[Observation]:
    """Return the values of a test in the order of time; without samples if a measurement has none."""
    builds = {BuildSide.PARENT: PARENT, BuildSide.CURRENT: PATCH}
    measured = sorted(
        ((each[side], builds[side]) for each in rounds for side in BuildSide), key=lambda one: one[0].started
    )
    first = measured[0][0].started
    return [
        Observation(
            build,
            (each.started - first).total_seconds() / _HOUR_S,
            each.values[test].samples if test in each.values else (),
            each.variant,
        )
        for each, build in measured
    ]


def _rank(judged: PatchTestVerdict) -> tuple[int, float, str]:
    size = abs(judged.comparison.relative) if judged.comparison else 0.0
    return list(PatchFinding).index(judged.finding), -size, judged.test
