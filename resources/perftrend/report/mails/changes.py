"""The changes in a mail: each change of the runs that it covers once, in tables with details.

The analysis of a run reports the changes that no earlier analysis reported. So a mail that covers several
runs has the changes of each of them, as found by the analysis of that run; the newest change of a test is
shown as of the newest run.

A run may become known after later runs have been reported. Then the analyses of these are repeated with
it, and the changes that they reported without it are left out.

Source: "Trend Analysis", sections Trend Compliance and Common Patterns (Summary).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Protocol

from perftrend.analysis import Pattern
from perftrend.model import Better, Change, Outcome, Run, TraceKey, Verdict
from perftrend.report.mails.mail_text import amounts, line, name_of, nic, shorten, unit_name
from perftrend.report.mails.record import MOST_RUNS, PendingRuns
from perftrend.report.texts import courses
from perftrend.text import NOTHING, natural_key, relative_change

MOST_ROWS = 100
"""Maximum number of changes in a mail; the report has all of them."""

_LONGEST_NAME = 200
_LONGEST_CELL = 20
_LONGEST_LINE = 240

COLUMNS = ("Test name", "NIC", "Frame size", "Trend [{unit}]", "Runs [#]", "Long-term change [%]")
"""Source: "Trend Analysis", section Trend Compliance (column names of alerting emails)."""

TEXT_COLUMNS = 3
"""Number of columns that are aligned to the left."""
_CHANGES = (Outcome.REGRESSION, Outcome.PROGRESSION)


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


@dataclass(frozen=True, slots=True)
class ChangeTable:
    """The changes of one metric; all its trends have the same unit."""

    metric: str
    header: tuple[str, ...]
    meaning: str
    """Which direction is better, if that is not higher."""
    rows: tuple[ChangeRow, ...]


def tables(verdicts: Iterable[Verdict], *, link: Callable[[Verdict], str]) -> list[ChangeTable]:
    """Return the tables of the verdicts, the largest long-term change first in each.

    :param verdicts: regressions, or progressions.
    :param link: returns the URL of a test's graph; empty if there is none.
    """
    ordered = sorted(verdicts, key=_rank)[:MOST_ROWS]
    ordered.sort(key=_kind)
    return [_table(list(group), link) for _, group in groupby(ordered, key=_kind)]


def reported_change(verdict: Verdict) -> Change | None:
    """Return the change that a verdict reports: the newest in its direction."""
    fitting = [change for change in verdict.changes if change.direction.value == verdict.outcome.value]
    return max(fitting, key=lambda change: change.position, default=None)


def _kind(verdict: Verdict) -> tuple[str, str, str]:
    return verdict.series.key.as_dict().get("metric", ""), verdict.series.unit, verdict.series.better


def _rank(verdict: Verdict) -> tuple[float, list[tuple[int, str]], str]:
    size = -abs(verdict.long_term_change)
    key = verdict.series.key
    return size if math.isfinite(size) else math.inf, natural_key(name_of(verdict)), str(key)


def _table(verdicts: Sequence[Verdict], link: Callable[[Verdict], str]) -> ChangeTable:
    series = verdicts[0].series
    unit = shorten(unit_name(series.unit), _LONGEST_CELL)
    metric = line(series.key.as_dict().get("metric", "")).upper() or "Trend"
    trends = amounts([verdict.trend for verdict in verdicts], series.unit)
    return ChangeTable(
        metric=shorten(metric, _LONGEST_CELL),
        header=tuple(name.format(unit=unit) for name in COLUMNS),
        meaning="lower is better" if series.better is Better.LOWER else "",
        rows=tuple(_row(verdict, trend, link) for verdict, trend in zip(verdicts, trends, strict=True)),
    )


def _row(verdict: Verdict, trend: str, link: Callable[[Verdict], str]) -> ChangeRow:
    change = reported_change(verdict)
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
        details=_details(verdict, change),
        advice=_advice(verdict, change),
        owners=shorten(", ".join(line(owner) for owner in verdict.owners), _LONGEST_LINE),
        link=link(verdict),
    )


def _details(verdict: Verdict, change: Change | None) -> str:
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
    parts.append(
        f"between run {course.place.replace(' and ', ' and run ')}"
        if course.place != NOTHING
        else f"since run {course.run.build}"
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
