"""The tables of a bisection as cells of text: effects of a change, and all measurements in git's order."""

from __future__ import annotations

from collections.abc import Sequence

from perftrend.bisect import Culprit
from perftrend.report.bisection import words
from perftrend.report.bisection.contents import Report
from perftrend.report.prose import HASH, line
from perftrend.wording import value

Cells = list[tuple[str, ...]]
"""The headings first; each row has as many cells as the headings."""

_LONGEST_SUBJECT = 40


def effects(report: Report, culprit: Culprit) -> Cells:
    """Return the effect of a change on each test, the affected tests first."""
    moved = report.affected(culprit)
    rows: Cells = [("test", "before", "after", "difference", "interval", "verdict")]
    for test in [*moved, *sorted(set(culprit.effects) - set(moved))]:
        effect = culprit.effects[test]
        word = words.outcome_word(report, test, effect) if test in moved else "the same"
        rows.append((line(test), *words.effect(report, test, effect), word))
    return rows


def measured(report: Report, tests: Sequence[str]) -> Cells:
    """Return the averages of tests in every commit that was measured or does not build, oldest first."""
    state = report.state
    rows: Cells = [("commit", "runs", *map(line, tests), "what it is")]
    for name in tried(report):
        runs = state.times_measured(name)
        samples = state.samples(name)
        values = [_average(report, test, samples.get(test)) for test in tests]
        rows.append((name[:HASH], str(runs) if runs else "", *values, _what(report, name)))
    return rows


def tried(report: Report) -> list[str]:
    """Return the commits that were measured or do not build, oldest first."""
    state = report.state
    known = {each.commit for each in state.measured} | set(state.broken)
    return [name for name in (state.range.old, *state.history.commits) if name in known]


def aligned(rows: Cells) -> list[str]:
    """Align cells in columns: the first and the last to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    last = len(widths) - 1
    return [
        "  ".join(
            cell.ljust(width) if place in (0, last) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _average(report: Report, test: str, samples: Sequence[float] | None) -> str:
    if not samples:
        return "" if samples is None else "failed"
    return value(sum(samples) / len(samples), line(report.sampled(test).unit))


def _what(report: Report, name: str) -> str:
    """Return the marks of a commit, and the beginning of its subject."""
    state = report.state
    marks = [_found(culprit) for culprit in report.outcome.culprits if name in culprit.commits]
    marks += [end for end, which in (("old", state.range.old), ("new", state.history.new)) if name == which]
    marks += ["does not build"] if name in state.broken else []
    known = report.names.get(name)
    subject = line(known.subject)[:_LONGEST_SUBJECT] if known else ""
    return " ".join([*(f"[{mark}]" for mark in marks), subject]).rstrip()


def _found(culprit: Culprit) -> str:
    return "CHANGED HERE" if len(culprit.commits) == 1 else "MAYBE HERE"
