"""What a mail contains: changes, once each, and causes of missing valid results.

Changes are in tables with details. The analysis of a run reports the changes that no earlier analysis
reported. So a mail that covers several runs has the changes of each of them, as found by the analysis of
that run; the newest change of a test is shown as of the newest run.

A run may become known after later runs have been reported. Then the analyses of these are repeated with
it, and the changes that they reported without it are left out.

Source: "Trend Analysis", sections Trend Compliance and Common Patterns (Summary).

Missing valid results are one group for each cause, instead of one line for each test. Two messages have
the same cause if they differ only in parts that vary from test to test: numbers, addresses, paths, times,
and the test's own name. A group shows the message of its first test.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Protocol

from perftrend.analysis import Pattern
from perftrend.model import Better, Change, Outcome, Run, TraceKey, Verdict, reported_change
from perftrend.report.mails.mail_text import amounts, line, name_of, nic, shorten, unit_name
from perftrend.report.mails.record import MOST_RUNS, PendingRuns
from perftrend.report.references import ChangeReference, References
from perftrend.report.texts import courses, describe_environment
from perftrend.text import NOTHING, UNCHANGED, natural_key, relative_change

WITHOUT_RESULT = (Outcome.FAILED, Outcome.NOT_VALID, Outcome.MISSING)
"""The outcomes that the mail covers, in the order of equally large groups."""

NAMES_SHOWN = 3

_DISTINCT_NAME = 8
"""Minimum length of a name that is hardly in a message by accident, in characters."""

_LOOKED_AT = 1000
"""Characters of a message that are compared: a longer one contains a log."""

# The order matters: an address may look like a time, a time like an address, and all have numbers.
_VARIABLE = tuple(
    (re.compile(pattern, re.ASCII), name)
    for pattern, name in (
        (r"\b[a-z][a-z0-9+.-]{1,9}://[^\s'\"<>,;]+", "<url>"),
        (
            r"\b(?:\d{4}-\d\d-\d\d|\d{8})[t ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:z\b|[+-]\d\d:?\d\d\b)?",
            "<time>",
        ),
        (r"\b(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}\b", "<address>"),
        (r"\b(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b", "<address>"),
        (r"(?<![\w:])\d{1,2}:\d\d:\d\d(?:[.,]\d+)?(?![\w:])", "<time>"),
        (r"(?<![\w:])(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?![\w:])(?:/\d+)?", "<address>"),
        (r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+|/\d+)?\b", "<address>"),
        (r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<n>"),
        (r"\b0x[0-9a-f]+\b", "<n>"),
        # A commit, and not a word: it has both digits and letters.
        (r"\b(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{7,64}\b", "<n>"),
        (r"(?<![\w/<])~?(?:/[\w.@+-]+)+/?", "<path>"),
        (r"[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?", "<n>"),
        (r"<n>(?:[,;]? ?<n>)+", "<n>"),
    )
)

MOST_ROWS = 40
"""Maximum number of changes of a kind in a mail; the report has all. Gmail cuts off more than 102 kB."""

_LONGEST_NAME = 200
_LONGEST_CELL = 20
_LONGEST_LINE = 240

COLUMNS = ("Test name", "NIC", "Frame size", "Trend [{unit}]", "Runs [#]", "Long-term change [%]")
"""Source: "Trend Analysis", section Trend Compliance (column names of alerting emails)."""

TEXT_COLUMNS = 3
"""Number of columns that are aligned to the left."""
_CHANGES = (Outcome.REGRESSION, Outcome.PROGRESSION, Outcome.TESTBED)


@dataclass(frozen=True, slots=True)
class Cause:
    """Tests without a valid result for the same reason."""

    outcome: Outcome
    message: str
    """The reason of the first test, with its line breaks."""
    count: int
    """Number of tests, regardless of the number of metrics of each."""
    new: int
    """Those of them that had a valid result before the newest runs."""
    names: tuple[str, ...]
    """The first of the tests, at most NAMES_SHOWN."""

    @property
    def others(self) -> int:
        """The number of tests that are not named."""
        return self.count - len(self.names)


def causes(verdicts: Iterable[Verdict], *, run: Run, new_runs: int = 1) -> list[Cause]:
    """Group the tests without a valid result, the largest group first.

    :param verdicts: of one run, in any order; those with a valid result are ignored.
    :param run: the run that was analysed.
    :param new_runs: the number of newest runs that no mail has reported.
    """
    found: dict[tuple[Outcome, str], list[Verdict]] = {}
    for verdict in verdicts:
        if lacks_result(verdict):
            found.setdefault((verdict.outcome, normalise_reason(verdict)), []).append(verdict)
    made = {key: _cause(group, run, new_runs) for key, group in found.items()}
    ordered = sorted(made, key=lambda key: (-made[key].count, WITHOUT_RESULT.index(key[0]), key[1]))
    return [made[key] for key in ordered]


def lacks_result(verdict: Verdict) -> bool:
    """Return whether a test has no valid result; results that a user marked as invalid do not count."""
    results = verdict.series.results
    return verdict.outcome in WITHOUT_RESULT and not (results and results[-1].marked)


def is_new(verdict: Verdict, run: Run, new_runs: int) -> bool:
    """Return whether a test without a valid result had one before the newest ``new_runs`` runs."""
    series = verdict.series
    usable = [index for index, result in enumerate(series.results) if result.usable]
    if not usable:
        # It never had one: that is new while all of its runs are.
        return len(series.runs) <= new_runs
    last = series.runs[usable[-1]]
    since = len(series.runs) - 1 - usable[-1]
    if verdict.outcome is Outcome.MISSING and last.job == run.job:
        # A run without the test is not a run of its trace, but it has a build number.
        since = max(since, run.build - last.build)
    return since <= new_runs


def normalise_reason(verdict: Verdict) -> str:
    """Return a reason with placeholders for the parts that vary from test to test."""
    # Cut first: a message may be megabytes of a log.
    text = line(verdict.reason[:_LOOKED_AT]).lower()
    parameters = verdict.series.key.as_dict()
    for name in ("test", "suite"):
        own = line(parameters.get(name, "")).lower()
        if len(own) >= _DISTINCT_NAME:
            text = text.replace(own, "<test>")
    for pattern, replacement in _VARIABLE:
        text = pattern.sub(replacement, text)
    return text


def _cause(group: list[Verdict], run: Run, new_runs: int) -> Cause:
    # Sorted by key and reason, so that the order of the verdicts does not matter.
    ordered = sorted(group, key=lambda each: (natural_key(name_of(each)), str(each.series.key), each.reason))
    tests: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in ordered:
        tests.setdefault((verdict.series.key.as_dict().get("suite", ""), name_of(verdict)), []).append(
            verdict
        )
    return Cause(
        outcome=ordered[0].outcome,
        message=ordered[0].reason,
        count=len(tests),
        new=sum(all(is_new(each, run, new_runs) for each in metrics) for metrics in tests.values()),
        names=tuple(dict.fromkeys(name for _, name in tests))[:NAMES_SHOWN],
    )


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One change of one test."""

    cells: tuple[str, ...]
    """Test name, NIC, frame size, trend, runs, long-term change."""
    reason: str
    details: str
    """Pattern, confidence and location of the change."""
    advice: str
    """How to interpret it; empty if that is obvious."""
    owners: str
    link: str
    """URL of the graph of the test; empty: not known."""
    kind: str
    """``regression``, ``progression`` or ``testbed``."""
    is_worse: bool | None
    """Whether the long-term change is for the worse; None: there is none."""
    steps: ChangeReference | None
    """The builds and commits around the change, and how to bisect it; None: the change is not known."""
    environment: str
    """What else differs between the runs around the change; empty if nothing is known."""


@dataclass(frozen=True, slots=True)
class ChangeTable:
    """The changes of one metric; all its trends have the same unit."""

    metric: str
    header: tuple[str, ...]
    meaning: str
    """Which direction is better, if that is not higher."""
    rows: tuple[ChangeRow, ...]


def tables(
    verdicts: Iterable[Verdict], *, link: Callable[[Verdict], str], references: References
) -> list[ChangeTable]:
    """Return the tables of the verdicts, the largest long-term change first in each.

    :param verdicts: regressions, or progressions.
    :param link: returns the URL of a test's graph; empty if there is none.
    :param references: returns the builds and commits around a change.
    """
    ordered = sorted(verdicts, key=_rank)[:MOST_ROWS]
    ordered.sort(key=_kind)
    return [_table(list(group), link, references) for _, group in groupby(ordered, key=_kind)]


def _kind(verdict: Verdict) -> tuple[str, str, str]:
    return verdict.series.key.as_dict().get("metric", ""), verdict.series.unit, verdict.series.better


def _rank(verdict: Verdict) -> tuple[float, list[tuple[int, str]], str]:
    size = -abs(verdict.long_term_change)
    key = verdict.series.key
    return size if math.isfinite(size) else math.inf, natural_key(name_of(verdict)), str(key)


def _table(
    verdicts: Sequence[Verdict], link: Callable[[Verdict], str], references: References
) -> ChangeTable:
    series = verdicts[0].series
    unit = shorten(unit_name(series.unit), _LONGEST_CELL)
    metric = line(series.key.as_dict().get("metric", "")).upper() or "Trend"
    trends = amounts([verdict.trend for verdict in verdicts], series.unit)
    return ChangeTable(
        metric=shorten(metric, _LONGEST_CELL),
        header=tuple(name.format(unit=unit) for name in COLUMNS),
        meaning="lower is better" if series.better is Better.LOWER else "",
        rows=tuple(
            _row(verdict, trend, link, references) for verdict, trend in zip(verdicts, trends, strict=True)
        ),
    )


def _row(verdict: Verdict, trend: str, link: Callable[[Verdict], str], references: References) -> ChangeRow:
    change = reported_change(verdict)
    is_known = change is not None and change.position < len(verdict.series.runs)
    steps = references.change(change, verdict) if change is not None and is_known else None
    return ChangeRow(
        cells=(
            shorten(name_of(verdict), _LONGEST_NAME),
            shorten(nic(verdict), _LONGEST_CELL),
            shorten(line(verdict.series.key.as_dict().get("frame", NOTHING)), _LONGEST_CELL),
            shorten(trend, _LONGEST_CELL),
            str(verdict.runs) if verdict.runs else NOTHING,
            relative_change(verdict.long_term_change).removesuffix(" %"),
        ),
        reason=shorten(line(verdict.reason), _LONGEST_LINE),
        details=_details(verdict, change, steps),
        advice=_advice(verdict, change),
        owners=shorten(", ".join(line(owner) for owner in verdict.owners), _LONGEST_LINE),
        link=link(verdict),
        kind=str(verdict.outcome),
        is_worse=_is_worse(verdict),
        steps=steps,
        environment=describe_environment(steps.environment) if steps else "",
    )


def _is_worse(verdict: Verdict) -> bool | None:
    """Return whether the long-term change is for the worse; None if it rounds to zero or is not known."""
    change = verdict.long_term_change
    if not math.isfinite(change) or relative_change(change) == UNCHANGED:
        return None
    return (change < 0) == (verdict.series.better is Better.HIGHER)


def _details(verdict: Verdict, change: Change | None, steps: ChangeReference | None) -> str:
    """Return the pattern and the confidence of a change, and the runs between which it is, as text."""
    found = courses(replace(verdict, changes=(change,), vanished=(), suspected=None)) if change else []
    if not found:
        return ""
    course = found[0]
    parts = [course.pattern] if course.pattern != NOTHING else []
    if change is not None and change.drift:
        parts.append("a slow drift")
    if course.confidence != NOTHING:
        parts.append(f"confidence {course.confidence}")
    if steps is not None:
        parts.append(
            f"between run {steps.before} and run {steps.after}"
            if course.has_place
            else f"since run {steps.after}"
        )
    return shorten(line(", ".join(parts)), _LONGEST_LINE)


def _advice(verdict: Verdict, change: Change | None) -> str:
    """Return advice on interpreting the numbers; empty if there is none.

    Source: "Trend Analysis", section Summary.
    """
    if change is not None and change.pattern == Pattern.REVERTED:
        return "soon reverted: a temporary change; investigate it if it happens often"
    if verdict.runs == 1 and verdict.outcome is Outcome.REGRESSION:
        return "one run so far, which may be an outlier: wait for the next runs"
    return ""


class Evaluate(Protocol):
    """An analysis."""

    def __call__(self, run: Run, /, *, new_runs: int = 1, without: Collection[Run] = ()) -> Sequence[Verdict]:
        """Return the verdicts of a run.

        :param new_runs: the number of newest runs that no earlier analysis has included.
        :param without: runs to ignore.
        """


def reportable(evaluate: Evaluate, pending: PendingRuns) -> tuple[Verdict, ...]:
    """Return the verdicts for a mail.

    :param evaluate: the analysis.
    :param pending: at least one run; only the newest MOST_RUNS are covered.
    :returns: those of the newest pending run, with the changes of all.
    """
    pending = PendingRuns(pending.runs[-MOST_RUNS:], pending.later[-MOST_RUNS:])
    run = pending.runs[-1]
    verdicts = evaluate(run)
    covered = sorted((*pending.runs, *pending.later), key=lambda each: (each.started, each.build))
    if len(covered) == 1:
        return tuple(verdicts)
    found = [change for each in covered for change in _changes(evaluate(each))]
    newest = {change.series.key: change for change in _changes(evaluate(covered[-1], new_runs=len(covered)))}
    last = {change.series.key: index for index, change in enumerate(found)}
    for index in last.values():
        now = newest.get(found[index].series.key)
        if now and now.outcome is found[index].outcome:
            found[index] = now
    for each in pending.later:
        for reported in _changes(evaluate(each, without=pending.runs)):
            _remove(found, reported)
    return (*(verdict for verdict in verdicts if verdict.outcome not in _CHANGES), *found)


def _changes(verdicts: Iterable[Verdict]) -> list[Verdict]:
    return [verdict for verdict in verdicts if verdict.outcome in _CHANGES]


def _remove(found: list[Verdict], reported: Verdict) -> None:
    """Remove a reported change: the nearest one of its trace in the same direction, if there is one."""
    same = [
        index
        for index, change in enumerate(found)
        if _trace_and_outcome(change) == _trace_and_outcome(reported)
    ]
    if same:
        del found[min(same, key=lambda index: abs(_began(found[index]) - _began(reported)))]


def _trace_and_outcome(verdict: Verdict) -> tuple[TraceKey, Outcome]:
    return verdict.series.key, verdict.outcome


def _began(verdict: Verdict) -> datetime:
    change = reported_change(verdict)
    return verdict.series.runs[change.position if change else -1].started
