"""The tables of a bisection as cells of text: effects of a change, and all measurements in git's order."""

from __future__ import annotations

from collections.abc import Sequence

from perftrend.bisect import Culprit
from perftrend.report.bisect import texts
from perftrend.report.bisect.contents import BisectReport
from perftrend.report.prose import HASH, line
from perftrend.wording import value

Cells = list[tuple[str, ...]]
"""The headings first; each row has as many cells as the headings."""

_LONGEST_SUBJECT = 40


def effects(report: BisectReport, culprit: Culprit) -> Cells:
    """Return the effect of a change on each test, the affected tests first."""
    moved = report.affected_tests(culprit)
    rows: Cells = [("test", "before", "after", "difference", "interval", "verdict")]
    for test in [*moved, *sorted(set(culprit.effects) - set(moved))]:
        effect = culprit.effects[test]
        word = texts.outcome_word(report, test, effect) if test in moved else "the same"
        rows.append((line(test), *texts.effect(report, test, effect), word))
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


def align(rows: Cells) -> list[str]:
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
