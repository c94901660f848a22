"""The changes in a mail: a table for each metric, and the details of each change.

Source: "Trend Analysis", sections Trend Compliance and Common Patterns (Summary).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from perftrend.analysis import Pattern
from perftrend.model import Better, Change, Outcome, Verdict
from perftrend.report.change_texts import courses
from perftrend.report.mails.mail_text import amounts, line, name_of, natural, nic, shorten, unit_name
from perftrend.wording import NOTHING, percent

MOST_ROWS = 100
"""Maximum number of changes in a mail; the report has all of them."""

_LONGEST_NAME = 200
_LONGEST_CELL = 20
_LONGEST_LINE = 240

COLUMNS = ("Test name", "NIC", "Frame size", "Trend [{unit}]", "Runs [#]", "Long-term change [%]")
"""Source: "Trend Analysis", section Trend Compliance (column names of alerting emails)."""

TEXT_COLUMNS = 3
"""Number of columns that are aligned to the left."""


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
    return size if math.isfinite(size) else math.inf, natural(name_of(verdict)), str(key)


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
            percent(verdict.long_term_change).removesuffix(" %"),
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
