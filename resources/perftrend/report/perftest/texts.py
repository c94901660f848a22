"""The contents of the reports of a per-patch test, and their words: the sentence, the rows and the notes.

The words are the same in every report.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from perftrend.analysis.instructions import InstructionDifference
from perftrend.model import Better
from perftrend.perftest import BuildSide, PatchFinding, PatchTestResults, PatchTestVerdict, PatchVerdict
from perftrend.settings import Settings
from perftrend.text import (
    HASH,
    NOTHING,
    decimals_of_rates,
    excerpt,
    format_count,
    line,
    percent,
    plain,
    relative_change,
    share,
    span,
    value,
)

_MEGA = 1e6
_EXACT = 0.001
"""Standard error of a difference, as a ratio, from which on the noise is worth a note."""


@dataclass(frozen=True, slots=True)
class PerftestSubject:
    """The compared commits, and the testbed."""

    testbed: str
    """Empty if none is involved."""
    parent: str
    """The whole hash."""
    patch: str
    """The whole hash."""
    change: int | None = None
    """Number in Gerrit; None if two commits were named."""
    patch_set: int | None = None
    page: str = ""
    """URL of the change."""
    is_merge: bool = False
    """Whether the patch has several parents, of which the first one is compared."""
    simulated: bool = False
    """Whether no packet was sent."""


@dataclass(frozen=True, slots=True)
class PerftestReport:
    """A verdict, and its conditions."""

    verdict: PatchVerdict
    subject: PerftestSubject
    job: str
    build: int
    started: datetime
    """UTC."""
    finished: datetime
    threshold: float
    """The smallest difference that matters, relative to the parent."""
    confidence: float
    formula: str
    """Formula of the description length in the CSIT comparison."""
    maximum_rounds: int
    link: str = ""
    """URL of the whole report; empty if it has none."""
    archive: str = ""
    """Location of the files of all rounds: a path or a URL."""
    notices: Sequence[str] = ()
    """Further notices for readers."""
    ended: bool = True
    """False: further rounds follow."""
    instructions: InstructionDifference | None = field(default=None, hash=False)
    """The instructions of both builds; None if they were not counted."""
    settings: Settings | None = field(default=None, hash=False, compare=False, repr=False)
    """Addresses of Gerrit and the dashboard, and the words of requests; None: none of them."""


@dataclass(frozen=True, slots=True)
class PatchTestRow:
    """One test as text."""

    judged: PatchTestVerdict
    test: str
    parent: str
    """In Mpps; with its unit if that is not pps."""
    patch: str
    difference: str
    """Difference of the patch in per cent of the parent."""
    interval: str
    """Interval of the difference."""
    verdict: str
    reason: str
    """Explanation of the verdict, in a line; empty if the numbers explain it."""


def sentence(report: PerftestReport) -> str:
    """Return the summary for busy readers, such as ``2 of 12 tests are slower by 3.1 to 5.2 %``."""
    verdict = report.verdict
    marked = "SIMULATED: " if report.subject.simulated else ""
    if not report.ended:
        return f"{marked}In progress: {verdict.rounds} of at most {report.maximum_rounds} rounds."
    if verdict.broken:
        return marked + _describe_build_failure(verdict)
    parts = list(_parts(verdict, report.threshold))
    whole = f"{'; '.join(parts)}." if parts else "No test was measured."
    return f"{marked}{whole[0].upper()}{whole[1:]}{_same_work(report)}"


def _same_work(report: PerftestReport) -> str:
    """Return the warning that a patch may have changed the speed without a fault of its own."""
    sizes = [test.change for test in report.verdict.tests if test.change is not None]
    found = report.instructions
    is_same = bool(sizes) and found is not None and found.explains_none_of(max(sizes, key=abs))
    return " Both builds execute the same instructions." if is_same else ""


def rows(tests: Sequence[PatchTestVerdict]) -> list[PatchTestRow]:
    """Return tests as text, with as many decimals as the smallest rate of them needs."""
    rates = [
        value
        for test in tests
        if test.comparison and _unit(test) == "pps"
        for value in (test.comparison.parent, test.comparison.patch)
    ]
    decimals = decimals_of_rates(rates)
    return [_row(test, decimals) for test in tests]


def notes(report: PerftestReport) -> list[str]:
    """Return what readers need to know to trust the table, in one sentence each."""
    return [plain(note) for note in (*report.notices, *_notes(report))]


def outcome(judged: PatchTestVerdict) -> str:
    """Return the word for the result of a test."""
    rate = judged.better is Better.HIGHER
    match judged.finding:
        case PatchFinding.REGRESSION:
            return "slower" if rate else "worse"
        case PatchFinding.PROGRESSION:
            return "faster" if rate else "better"
        case _:
            return str(judged.finding)


def build_name(side: BuildSide) -> str:
    """Return the name of a build in sentences."""
    return "the parent" if side is BuildSide.PARENT else "the patch"


def subject(report: PerftestReport) -> str:
    """Return the compared commits, the testbed and the number of rounds, as text."""
    about, rounds = report.subject, report.verdict.rounds
    patch_set = f"Patch set {about.patch_set}" if about.patch_set else "The newer commit"
    parent = "its parent" if about.patch_set else "the older one"
    on = f" on {line(about.testbed)}" if about.testbed else ""
    often = f", {format_count(rounds, 'round')} of both" if rounds else ""
    return f"{patch_set} ({about.patch[:HASH]}) against {parent} ({about.parent[:HASH]}){on}{often}."


def legend(report: PerftestReport) -> str:
    """Return an explanation of the numbers of the table."""
    shown = [test for test in report.verdict.tests if test.comparison]
    if not shown:
        return ""
    mega = "Rates are in Mpps. " if any(test.unit == "pps" for test in shown) else ""
    sure = f"{100 * report.confidence:g} %"
    return f"{mega}Differences are relative to the parent; the intervals have a confidence of {sure}."


def _describe_build_failure(verdict: PatchVerdict) -> str:
    assert verdict.broken is not None  # noqa: S101 - checked by the caller
    reason = " ".join(plain(verdict.broken.reason).split()).rstrip(".")
    if verdict.broken.side is BuildSide.CURRENT:
        return f"The patch does not build: {reason}."
    return f"The parent does not build, so there is nothing to compare the patch with: {reason}."


def _parts(verdict: PatchVerdict, threshold: float) -> Iterator[str]:
    total, is_first = len(verdict.tests), True
    for finding in PatchFinding:
        found = [test for test in verdict.tests if test.finding is finding]
        if not found:
            continue
        if not is_first:
            tests = str(len(found))
        elif total == 1:
            tests = "the only test"
        else:
            tests = f"all {total} tests" if len(found) == total else f"{len(found)} of {total} tests"
        is_one = len(found) == 1
        yield f"{tests} {_describe_finding(finding, found, threshold, is_one=is_one)}"
        is_first = False


def _describe_finding(
    finding: PatchFinding, found: Sequence[PatchTestVerdict], threshold: float, *, is_one: bool
) -> str:
    be = "is" if is_one else "are"
    match finding:
        case PatchFinding.REGRESSION | PatchFinding.PROGRESSION:
            words = sorted({outcome(test) for test in found}, reverse=True)
            by = span(test.comparison.relative for test in found if test.comparison)
            return f"{be} {' or '.join(words)} by {by}"
        case PatchFinding.SAME:
            least = f" of {share(threshold)} or more" if threshold else ""
            return f"{'shows' if is_one else 'show'} no difference{least}"
        case PatchFinding.UNDECIDED:
            return f"{be} undecided"
        case PatchFinding.NOT_MEASURED:
            return "could not be measured"
        case PatchFinding.FAILS | PatchFinding.REPAIRED:
            return str(finding) if is_one else str(finding).replace("fails", "fail", 1)


def _row(test: PatchTestVerdict, decimals: int) -> PatchTestRow:
    name = line(test.test)
    comparison = test.comparison
    if comparison is None:
        return PatchTestRow(test, name, NOTHING, NOTHING, NOTHING, NOTHING, outcome(test), _reason(test))
    unit = _unit(test)
    return PatchTestRow(
        test,
        name,
        _value(comparison.parent, unit, decimals),
        _value(comparison.patch, unit, decimals),
        relative_change(comparison.relative),
        f"{percent(comparison.low).removesuffix(' %')} to {percent(comparison.high)}",
        outcome(test),
        _reason(test),
    )


def _reason(test: PatchTestVerdict) -> str:
    """Return an explanation of a verdict that the numbers do not explain, in one line."""
    match test.finding:
        case PatchFinding.NOT_MEASURED if test.parent.is_broken and test.current.is_broken:
            return f"fails with both builds: {_last(test.current)}"
        case PatchFinding.NOT_MEASURED:
            return _describe_not_measured(test)
        case PatchFinding.FAILS:
            return _last(test.current)
        case PatchFinding.REPAIRED:
            return _last(test.parent)
        case _ if test.fails_at_times:
            failed, tried = len(test.current.failed), _count_rounds(test.current)
            return f"failed in {failed} of {tried} rounds with the patch, and never with the parent"
        case _:
            return ""


def _describe_not_measured(test: PatchTestVerdict) -> str:
    """Return what is wrong with the build that gave fewer values."""
    sides = {BuildSide.PARENT: test.parent, BuildSide.CURRENT: test.current}
    side = min(sides, key=lambda each: len(sides[each].values))
    how = "failed" if sides[side].failed else "not valid"
    return f"{how} with {build_name(side)}: {_last(sides[side])}"


def _last(build: PatchTestResults) -> str:
    """Return the last line of the reason why a test has no value."""
    reasons = [*build.untrusted.values(), *build.failed.values()]
    lines = excerpt(reasons[-1].splitlines()) if reasons else []
    return line(lines[-1]) if lines else ""


def _count_rounds(build: PatchTestResults) -> int:
    return len(build.values) + len(build.failed) + len(build.untrusted)


def _notes(report: PerftestReport) -> Iterator[str]:
    verdict = report.verdict
    if report.subject.is_merge:
        patch = "The patch set" if report.subject.patch_set else "The newer commit"
        yield f"{patch} is a merge; it is compared with its first parent."
    if verdict.rounds and verdict.is_settled and verdict.rounds < report.maximum_rounds:
        yield (
            f"Ended after {format_count(verdict.rounds, 'round')} of {report.maximum_rounds}: "
            "more would not change the verdict."
        )
    if report.instructions:
        yield report.instructions.describe("its parent", "The patch")
    yield from _power(verdict)
    yield from _too_few_rounds(verdict)
    yield from _other_noise(verdict)
    yield from _layouts(verdict)
    yield from _same_instructions(verdict)
    yield from _outliers(verdict)
    for test in verdict.tests:
        for side, build in ((BuildSide.PARENT, test.parent), (BuildSide.CURRENT, test.current)):
            if build.untrusted and test.comparison:
                results = format_count(len(build.untrusted), "result")
                why = next(iter(build.untrusted.values()))
                yield f"{test.test}: {results} of {build_name(side)} left out as not valid ({why})."


def _power(verdict: PatchVerdict) -> Iterator[str]:
    """Yield the size of a difference that would have been shown, if tests are undecided."""
    undecided = [
        test for test in verdict.tests if test.finding is PatchFinding.UNDECIDED and not test.may_be_layout
    ]
    least = span(test.comparison.smallest for test in undecided if test.comparison)
    if least:
        each = ", depending on the test," if " to " in least else ""
        yield f"For undecided tests, a difference of {least}{each} would probably have been shown."


def _too_few_rounds(verdict: PatchVerdict) -> Iterator[str]:
    """Yield a note if the maximum number of rounds cannot show a difference."""
    found = next((test.comparison for test in verdict.tests if test.comparison), None)
    if found and not found.can_show:
        needed = found.design.fewest_rounds(found.rule.error)
        yield (
            f"{format_count(found.design.maximum_rounds, 'round')} cannot show a difference of "
            f"{format_count(found.rule.tests, 'test')}; set perftest.maximum_rounds to {needed} or more."
        )


def _other_noise(verdict: PatchVerdict) -> Iterator[str]:
    """Yield a note on tests with misleading averages."""
    where = [
        test.test
        for test in verdict.tests
        if test.comparison and test.comparison.is_any_shape and test.comparison.error > _EXACT
    ]
    if where:
        yield (
            f"{_one_or_count(where)}: the noise is not normal, as on a machine that switches between speeds; "
            "values at the same speed are compared, not the averages."
        )


def _layouts(verdict: PatchVerdict) -> Iterator[str]:
    """Yield a note on tests whose difference may come from layouts."""
    where = [
        test.test
        for test in verdict.tests
        if test.comparison
        and test.comparison.is_explained_by_layouts
        and test.finding is PatchFinding.UNDECIDED
    ]
    if where:
        yield (
            f"{_one_or_count(where)}: the builds differ, but each of them differs as much from layout to "
            "layout; measure them in more layouts."
        )


def _same_instructions(verdict: PatchVerdict) -> Iterator[str]:
    """Yield a note on tests that differ although the builds execute the same instructions."""
    sizes = {
        test.test: test.comparison.relative
        for test in verdict.tests
        if test.comparison and test.may_be_layout
    }
    if sizes:
        yield (
            f"{_one_or_count(list(sizes))}: the builds differ by {span(sizes.values())} but execute the same "
            "instructions, so the position of code in memory may be the only reason; measure them in several "
            "layouts (measure.variants)."
        )


def _outliers(verdict: PatchVerdict) -> Iterator[str]:
    counts = {test.test: len(test.comparison.outliers) for test in verdict.tests if test.comparison}
    if total := sum(counts.values()):
        where = [name for name, count in counts.items() if count]
        what = "an outlier" if total == 1 else "outliers"
        yield f"{format_count(total, 'measurement')} of {_one_or_count(where)} left out as {what}."


def _one_or_count(tests: Sequence[str]) -> str:
    """Return the name of a single test, or the number of tests."""
    return tests[0] if len(tests) == 1 else format_count(len(tests), "test")


def _unit(test: PatchTestVerdict) -> str:
    return plain(test.unit)


def _value(number: float, unit: str, decimals: int) -> str:
    return f"{number / _MEGA:.{decimals}f}" if unit == "pps" else value(number, unit)
