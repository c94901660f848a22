"""The contents of a bisection's reports, and the words of all of them: sentence, commits, notes, tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from perftrend.analysis.comparison import CsitComparison, compare_by_mdl
from perftrend.bisect import BisectOutcome, BisectState, Culprit, Effect, OutcomeKind, Suspicion
from perftrend.bisect.runner import LIKELY, ExplainedCulprit
from perftrend.model import Better, Direction, MetricSamples
from perftrend.model import Outcome as Classification
from perftrend.settings import Settings
from perftrend.text import HASH, format_count, format_probability, line, percent, relative_change, span, value

_FEW, _SUSPECTS = 3, 5
_MADE = {"fails from then on": "fail", "works from then on": "work"}
"""Replacements for these words after ``made``."""
_MINUTE_S = 60
_LONGEST_SUBJECT = 40


@dataclass(frozen=True, slots=True)
class NamedCommit:
    """The subject and the author of a commit."""

    subject: str
    author: str


@dataclass(frozen=True, slots=True)
class BisectSubject:
    """The testbed and the change of a search."""

    testbed: str
    """Empty if none is involved."""
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
    explained: Sequence[ExplainedCulprit] = ()
    """The culprits whose instructions were counted."""
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
            return effect.probability >= LIKELY
        return (
            self.compare(test, *self.state.adjacent_commits(culprit)).classification
            is not Classification.NORMAL
        )

    def compare(self, test: str, before: str, after: str) -> CsitComparison:
        """Compare a test in two commits with the CSIT method."""
        one, other = (self.state.samples(commit).get(test, ()) for commit in (before, after))
        return compare_by_mdl(one, other, formula=self.formula, better=self.better(test))

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


def sentence(report: BisectReport) -> str:
    """Return the summary for readers, such as ``1a2b3c4d5e6f "Copy twice" made 1 of 2 tests slower…``."""
    marked = "SIMULATED: " if report.subject.simulated else ""
    return marked + _SENTENCES[report.outcome.kind](report)


def culprit_sentence(report: BisectReport, culprit: Culprit) -> str:
    """Return the same for the change of a single culprit commit."""
    marked = "SIMULATED: " if report.subject.simulated else ""
    done = deed(report, culprit)
    return f"{marked}This change, as commit {culprit.commits[0][:HASH]}, {done}."


def deed(report: BisectReport, culprit: Culprit) -> str:
    """Return what a change did, with its probability: ``made 1 of 2 tests slower…``."""
    return f"{_done(report, culprit)}{_sure(culprit)}"


def commit(report: BisectReport, name: str) -> str:
    """Return the abbreviated hash and the subject of a commit."""
    known = report.names.get(name)
    return f'{name[:HASH]} "{line(known.subject)}"' if known and known.subject else name[:HASH]


def author(report: BisectReport, name: str) -> str:
    """Return the author of a commit."""
    known = report.names.get(name)
    return line(known.author) if known else ""


def suspicion(report: BisectReport, suspected: Suspicion) -> str:
    """Return the probability that a change is among some commits, as text."""
    if not suspected.commits:
        return f"{format_probability(suspected.probability)}: nothing changed"
    return f"{format_probability(suspected.probability)}: {among(report, suspected.commits)}"


def among(report: BisectReport, commits: Sequence[str]) -> str:
    """Return the name of one commit, or the number and the ends of several."""
    if len(commits) == 1:
        return commit(report, commits[0])
    return f"{len(commits)} commits, {commits[0][:HASH]} to {commits[-1][:HASH]}"


def effect(report: BisectReport, test: str, moved: Effect) -> tuple[str, str, str, str]:
    """Return the effect of a change on a test as text: before, after, difference, and its interval."""
    unit = line(report.any_samples(test).unit)
    before, after = (
        "fails" if math.isnan(level) else value(level, unit) for level in (moved.before, moved.after)
    )
    interval = "" if math.isnan(moved.low) else f"{percent(moved.low)} to {percent(moved.high)}"
    return before, after, "" if math.isnan(moved.relative) else relative_change(moved.relative), interval


def outcome_word(report: BisectReport, test: str, moved: Effect) -> str:
    """Return the word for the effect of a change on a test."""
    higher = report.better(test) is Better.HIGHER
    match report.direction(test, moved):
        case Direction.REGRESSION:
            return "fails from then on" if math.isnan(moved.after) else "slower" if higher else "worse"
        case Direction.PROGRESSION:
            return "works from then on" if math.isnan(moved.before) else "faster" if higher else "better"
        case None:
            return "the same"


def effort(report: BisectReport) -> str:
    """Return the numbers of commits, builds, measurements and minutes, as text."""
    state = report.state
    parts = [
        format_count(len(state.range.commits), "commit"),
        format_count(len(state.built), "build"),
        format_count(len(state.measured), "measurement"),
    ]
    if report.started and report.finished:
        minutes = math.ceil((report.finished - report.started).total_seconds() / _MINUTE_S)
        parts.append(format_count(max(minutes, 1), "minute"))
    return ", ".join(parts)


def build_failure(report: BisectReport, name: str) -> str:
    """Return why a commit does not build, without the local path of the log, which is in the archive."""
    return line(report.state.broken[name].partition("; see ")[0]).rstrip(".")


def search_scope(report: BisectReport) -> str:
    """Return the searched range, the testbed, the strategy and the effort, as text."""
    state = report.state
    on = f" on {line(report.subject.testbed)}" if report.subject.testbed else ""
    return (
        f"Searched from {commit(report, state.range.old)} to {commit(report, state.history.new)}{on} "
        f"by the strategy {report.strategy}: {effort(report)}."
    )


def notes(report: BisectReport) -> list[str]:
    """Return what readers need to know to trust the result, in one sentence each."""
    return [line(note) for note in (*report.notices, *_notes(report))]


def _describe_found(report: BisectReport) -> str:
    first, *others = report.outcome.culprits
    text = _describe_culprit(report, first)
    for other in others[:_FEW]:
        text = f"{text[:-1]}; {among(report, other.commits)} {_made(report, other)}."
    return text


def _describe_culprit(report: BisectReport, culprit: Culprit) -> str:
    what = _made(report, culprit)
    if len(culprit.commits) == 1:
        return f"{commit(report, culprit.commits[0])} {what}."
    return (
        f"One of {among(report, culprit.commits)}, {what}; "
        "which one is unknown, because not all of them build."
    )


def _made(report: BisectReport, culprit: Culprit) -> str:
    return f"{_done(report, culprit)}{_sure(culprit)}{_same_work(report, culprit)}"


def _same_work(report: BisectReport, culprit: Culprit) -> str:
    """Return the warning that a build may have become slower without a fault of its commit."""
    is_same = any(
        each.culprit == culprit and each.instructions.explains_none_of(each.difference)
        for each in report.explained
    )
    return ", although it executes the same instructions" if is_same else ""


def _sure(culprit: Culprit) -> str:
    known = not math.isnan(culprit.confidence)
    return f", with a probability of {format_probability(culprit.confidence)}" if known else ""


def _done(report: BisectReport, culprit: Culprit) -> str:
    affected, total = report.affected_tests(culprit), len(report.tests)
    if not affected:
        return "is named, although no single test is known to have changed"
    by_word: dict[str, list[float]] = {}
    for test, moved in affected.items():
        by_word.setdefault(outcome_word(report, test, moved), []).append(abs(moved.relative))
    parts = []
    for word, sizes in sorted(by_word.items(), key=lambda item: -len(item[1])):
        count = "the only test" if total == 1 else f"{len(sizes)} of {total} tests"
        by = f" by {span(sizes)}" if span(sizes) else ""
        parts.append(f"{count} {_MADE.get(word, word)}{by}")
    return f"made {' and '.join(parts)}"


def _describe_no_difference(report: BisectReport) -> str:
    state = report.state
    ends = f"{commit(report, state.range.old)} and {commit(report, state.history.new)}"
    visible = span(report.outcome.smallest_visible.values())
    if not visible:
        return f"No change was found between {ends}."
    each = ", depending on the test," if " to " in visible else ""
    return f"No change above {visible}{each} was found between {ends}."


def _describe_undecided(report: BisectReport) -> str:
    text = f"Undecided, because {line(report.outcome.reason)}"
    suspected = [each for each in report.outcome.belief if each.commits]
    if suspected:
        most = max(suspected, key=lambda each: each.probability)
        text += f"; most likely, with {format_probability(most.probability)}: {among(report, most.commits)}"
    left = report.outcome.remaining
    if left is not None:
        text += f"; about {format_count(left, 'more measurement')} might decide it"
    return f"{text}."


def _describe_not_built(report: BisectReport) -> str:
    state = report.state
    ends = {"old": state.range.old, "new": state.history.new}
    which, name = next((which, name) for which, name in ends.items() if name in state.broken)
    failure = build_failure(report, name)
    return f"The {which} commit {commit(report, name)} does not build: {failure}; name another."


_SENTENCES = {
    OutcomeKind.FOUND: _describe_found,
    OutcomeKind.NO_DIFFERENCE: _describe_no_difference,
    OutcomeKind.UNDECIDED: _describe_undecided,
    OutcomeKind.NOT_BUILT: _describe_not_built,
}


def _notes(report: BisectReport) -> Iterator[str]:
    state, outcome = report.state, report.outcome
    for each in report.explained:
        yield each.instructions.describe(each.before[:HASH], each.after[:HASH])
        if each.doubt:
            named = f"Not named: {each.doubt}. " if outcome.culprits else ""
            yield f"{named}To decide it, measure each build in several layouts (measure.variants)."
    if outcome.kind is OutcomeKind.FOUND:
        yield f"Ended because {outcome.reason}."
    if outcome.kind is OutcomeKind.UNDECIDED and outcome.belief:
        likely = sorted(outcome.belief, key=lambda each: -each.probability)
        yield f"What may have changed: {'; '.join(suspicion(report, each) for each in likely[:_SUSPECTS])}."
    if outcome.kind is OutcomeKind.UNDECIDED and outcome.smallest_visible:
        yield f"A change above {span(outcome.smallest_visible.values())} would probably have been found."
    if outcome.kind is OutcomeKind.UNDECIDED and outcome.remaining is not None:
        yield "Run the same command again to continue with the same number of measurements."
    between = [name for name in state.broken if name not in (state.range.old, state.history.new)]
    if between:
        some = ", ".join(name[:HASH] for name in between[:_FEW])
        more = ", …" if len(between) > _FEW else ""
        verb = "does" if len(between) == 1 else "do"
        yield f"{format_count(len(between), 'commit')} {verb} not build: {some}{more}."
    yield from _failures(report)
    yield from _absences(report)
    outliers = sum(map(len, outcome.outliers.values()))
    if outliers:
        kind = "an outlier" if outliers == 1 else "outliers"
        yield f"{format_count(outliers, 'value')} left out as {kind}."


def _failures(report: BisectReport) -> Iterator[str]:
    """Yield why tests failed, by the first failure of each."""
    why: dict[str, tuple[str, str]] = {}
    for each in report.state.measured:
        for test, reason in each.failed.items():
            why.setdefault(test, (each.commit, reason))
    for test, (name, reason) in list(why.items())[:_FEW]:
        yield f"{test} failed in {name[:HASH]}: {reason.partition('; see ')[0].rstrip('.')}."
    if len(why) > _FEW:
        yield f"{format_count(len(why) - _FEW, 'more test')} failed."


def _absences(report: BisectReport) -> Iterator[str]:
    """Yield the tests that some commits lack: these are not compared there."""
    measured = report.state.measured
    for test in report.tests:
        tried = {each.commit for each in measured if test in each.values or test in each.failed}
        lacking = [name for name in dict.fromkeys(each.commit for each in measured) if name not in tried]
        if lacking:
            commits = format_count(len(lacking), "commit")
            yield f"{test} has no result in {commits}, such as {lacking[0][:HASH]}."


Cells = list[tuple[str, ...]]
"""The headings first; each row has as many cells as the headings."""


def effects(report: BisectReport, culprit: Culprit) -> Cells:
    """Return the effect of a change on each test, the affected tests first."""
    moved = report.affected_tests(culprit)
    rows: Cells = [("test", "before", "after", "difference", "interval", "verdict")]
    for test in [*moved, *sorted(set(culprit.effects) - set(moved))]:
        found = culprit.effects[test]
        word = outcome_word(report, test, found) if test in moved else "the same"
        rows.append((line(test), *effect(report, test, found), word))
    return rows


def measurements(report: BisectReport, tests: Sequence[str]) -> Cells:
    """Return the averages of tests in every commit that was measured or does not build, oldest first."""
    state = report.state
    rows: Cells = [("commit", "runs", *map(line, tests), "what it is")]
    for name in attempted_commits(report):
        runs = state.times_measured(name)
        samples = state.samples(name)
        values = [_average(report, test, samples.get(test)) for test in tests]
        rows.append((name[:HASH], str(runs) if runs else "", *values, _what(report, name)))
    return rows


def attempted_commits(report: BisectReport) -> list[str]:
    """Return the commits that were measured or do not build, oldest first."""
    state = report.state
    known = {each.commit for each in state.measured} | set(state.broken)
    return [name for name in (state.range.old, *state.history.commits) if name in known]


def _average(report: BisectReport, test: str, samples: Sequence[float] | None) -> str:
    if not samples:
        return "" if samples is None else "failed"
    return value(sum(samples) / len(samples), line(report.any_samples(test).unit))


def _what(report: BisectReport, name: str) -> str:
    """Return the marks of a commit, and the beginning of its subject."""
    state = report.state
    marks = [_culprit_mark(culprit) for culprit in report.outcome.culprits if name in culprit.commits]
    marks += [end for end, which in (("old", state.range.old), ("new", state.history.new)) if name == which]
    marks += ["does not build"] if name in state.broken else []
    known = report.names.get(name)
    subject = line(known.subject)[:_LONGEST_SUBJECT] if known else ""
    return " ".join([*(f"[{mark}]" for mark in marks), subject]).rstrip()


def _culprit_mark(culprit: Culprit) -> str:
    return "CHANGED HERE" if len(culprit.commits) == 1 else "MAYBE HERE"
