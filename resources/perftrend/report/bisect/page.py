"""The folder of a bisection's report: a page with plots, JSON, the message and the console's text.

The page is plain HTML with a separate style sheet, so that it displays under Jenkins's policy for artifacts.
The JSON has everything that the message and the page show, and all samples. It has no NaN, so a value that
does not exist is null.

A plot has the average of each measurement over git's order of commits. A bar below the values shows, for each
commit, the final probability that it changed something. It is SVG without scripts and inline styles, which
Jenkins forbids on artifact pages: class names leave colours to the style sheet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perftrend.bisect import Culprit, Effect, OutcomeKind, Suspicion
from perftrend.bisect.command import format_comment
from perftrend.model import BuildMeasurement, finite
from perftrend.report import flame_graph
from perftrend.report.bisect import texts
from perftrend.report.bisect.messages import console, message
from perftrend.report.bisect.texts import BisectReport, attempted_commits, effects, measurements
from perftrend.report.folder import (
    CONSOLE,
    INDEX,
    MESSAGE,
    STYLE,
    format_json,
    instructions,
    iso_time,
    render,
    style,
    write_files,
)
from perftrend.report.references import CommitReference, References
from perftrend.scale import Scale, padded_range, ticks
from perftrend.text import HASH, excerpt, line, plain, value

DOCUMENT = "bisection.json"
FORMAT = "perftrend-bisection-report-1"
"""The first key of the document; the number is increased if a key changes its meaning."""
WIDTH, HEIGHT, BOTTOM, BASE = 960, 246, 170, 218
"""Size of the picture, and the bottom of the values and of the belief; the names of commits are below."""
LEFT, MARGIN = 72, 24
BARS = 40
"""Height of a bar for certainty."""
MOST_PLOTS = 6
_MOST_TICKS = 5
_NAME_WIDTH = 100.0
_MEGA = 1e6
_LEAST_SPAN = 0.04
"""Minimum height, relative to the middle: noise of a tenth of a per cent looks flat."""
_LEAST_PROBABILITY = 0.005
_NARROWEST, _WIDEST = 2.0, 24.0
"""Limits of the width of a commit's bar."""


def write(directory: Path, report: BisectReport) -> Path:
    """Write the report into a directory: see :func:`perftrend.report.folder.write_files`."""
    return write_files(directory, files(report))


def files(report: BisectReport) -> dict[str, str]:
    """Return all files of a report by name."""
    return {
        INDEX: _page(report),
        STYLE: style("perftest.css", "bisection.css", "flame-graph.css"),
        DOCUMENT: format_json(document(report)),
        MESSAGE: message(report),
        CONSOLE: console(report),
    }


def document(report: BisectReport) -> dict[str, Any]:
    """Return the complete report, ready for JSON."""
    state, outcome, subject = report.state, report.outcome, report.subject
    return {
        "format": FORMAT,
        "sentence": texts.sentence(report),
        "outcome": str(outcome.kind),
        "reason": plain(outcome.reason),
        "job": plain(report.job),
        "build": report.build,
        "testbed": plain(subject.testbed) or None,
        "simulated": subject.simulated,
        "change": subject.change,
        "patch_set": subject.patch_set,
        "page": subject.page or None,
        "strategy": report.strategy,
        "confidence": report.confidence,
        "formula": report.formula,
        "first_parent": state.range.first_parent,
        "old": state.range.old,
        "new": state.history.new,
        "started": iso_time(report.started),
        "finished": iso_time(report.finished),
        "culprits": [_culprit(report, each) for each in outcome.culprits],
        "belief": [_suspicion(each) for each in outcome.belief],
        "instructions": [
            {"before": each.before, "after": each.after, **instructions(each.instructions)}
            for each in report.explained
        ],
        "smallest_visible": {plain(test): finite(size) for test, size in outcome.smallest_visible.items()},
        "remaining": outcome.remaining,
        "commits": [_commit(report, each) for each in (state.range.old, *state.history.commits)],
        "measurements": [_measurement(each) for each in state.measured],
        "last_lines": [plain(text) for text in report.last_lines],
        "notes": texts.notes(report),
        "command": plain(report.command) or None,
        "archive": plain(report.archive) or None,
    }


@dataclass(frozen=True, slots=True)
class Dot:
    """One measurement."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class CommitLabel:
    """The name of a commit below its values."""

    x: float
    anchor: str
    """Its ``text-anchor``."""
    reference: CommitReference


@dataclass(frozen=True, slots=True)
class Plot:
    """One test in coordinates of the picture."""

    test: str
    dots: tuple[Dot, ...]
    failed: tuple[Dot, ...]
    """Failed measurements, at the bottom."""
    changes: tuple[tuple[float, float], ...]
    """Left edges and widths of the named commits."""
    bars: str
    """The belief, as a path in SVG's notation."""
    unit: str
    levels: tuple[tuple[float, str], ...]
    """Heights and texts of the labels of values."""
    commits: tuple[CommitLabel, ...]


def plots(report: BisectReport) -> list[Plot]:
    """Draw the tests that changed the most, or the first ones."""
    moved = (test for culprit in report.outcome.culprits for test in report.affected_tests(culprit))
    chosen = list(dict.fromkeys([*moved, *report.tests]))[:MOST_PLOTS]
    return [_plot(report, test) for test in chosen]


def _page(report: BisectReport) -> str:
    references = References(report.settings)
    return render(
        "bisection.html",
        title="Bisection",
        run=f"{plain(report.job)}/{report.build}",
        started=report.started,
        finished=report.finished,
        subject=report.subject,
        report=report,
        sentence=texts.sentence(report),
        state="fail" if report.regressed else "pass" if report.outcome.kind is OutcomeKind.FOUND else "open",
        outcome=report.outcome.kind,
        culprits=[
            {
                "name": texts.among(report, each.commits),
                "author": texts.author(report, each.commits[0]) if len(each.commits) == 1 else "",
                "commits": each.commits,
                "diff": excerpt(report.diffs.get(each.commits[0], ())) if len(each.commits) == 1 else (),
                "rows": effects(report, each),
            }
            for each in report.outcome.culprits
        ],
        measured=measurements(report, report.tests),
        references=references,
        attempted=[references.commit(name) for name in attempted_commits(report)],
        last_lines=excerpt(report.last_lines),
        picture={"width": WIDTH, "height": HEIGHT, "base": BASE, "left": LEFT, "margin": MARGIN},
        plots=plots(report),
        flames=[
            (f"{each.before[:HASH]} and {each.after[:HASH]}", graph)
            for each in report.explained
            if (graph := flame_graph.draw(each.instructions))
        ],
        belief=[texts.suspicion(report, each) for each in report.outcome.belief],
        searched=texts.search_scope(report),
        notes=texts.notes(report),
        command=line(report.command),
        comment=_comment(report),
    )


def _comment(report: BisectReport) -> str:
    """Return the comment that repeats the search; empty if a comment cannot name its tests."""
    settings, testbed = report.settings, report.subject.testbed
    if settings is None:
        return ""
    return format_comment(settings, testbed, old=report.state.range.old, include=settings.tags)


def _culprit(report: BisectReport, culprit: Culprit) -> dict[str, Any]:
    moved = report.affected_tests(culprit)
    return {
        "commits": list(culprit.commits),
        "confidence": finite(culprit.confidence),
        "tests": [
            {"test": plain(test), "affected": test in moved, "direction": _direction(report, test, effect)}
            | _effect(effect)
            for test, effect in culprit.effects.items()
        ],
        "diff": [plain(text) for commit in culprit.commits for text in report.diffs.get(commit, ())],
    }


def _effect(effect: Effect) -> dict[str, Any]:
    names = ("before", "after", "relative", "low", "high", "probability")
    return {name: finite(getattr(effect, name)) for name in names}


def _direction(report: BisectReport, test: str, effect: Effect) -> str | None:
    found = report.direction(test, effect)
    return found and str(found)


def _suspicion(suspected: Suspicion) -> dict[str, Any]:
    return {"commits": list(suspected.commits), "probability": finite(suspected.probability)}


def _commit(report: BisectReport, name: str) -> dict[str, Any]:
    known = report.names.get(name)
    return {
        "commit": name,
        "subject": plain(known.subject) if known else None,
        "author": plain(known.author) if known else None,
        "build_s": report.state.built.get(name),
        "broken": texts.build_failure(report, name) if name in report.state.broken else None,
    }


def _measurement(measured: BuildMeasurement) -> dict[str, Any]:
    return {
        "commit": measured.commit,
        "started": iso_time(measured.started),
        "finished": iso_time(measured.finished),
        "archive": plain(measured.archive) or None,
        "tests": [
            {
                "test": plain(test),
                "unit": plain(each.unit),
                "better": str(each.better),
                "samples": [finite(sample) for sample in each.samples],
            }
            for test, each in measured.values.items()
        ],
        "failed": [{"test": plain(test), "reason": plain(why)} for test, why in measured.failed.items()],
        "variant": measured.variant,
        "disturbed": plain(measured.disturbed) or None,
    }


def _plot(report: BisectReport, test: str) -> Plot:
    history = report.state.history
    averages = [
        (each.commit, sum(values) / len(values) if values else None)
        for each in report.state.measured
        for values in [each.values[test].samples if test in each.values else ()]
        if values or test in each.failed
    ]
    valid = [average for _, average in averages if average is not None]
    low, high = padded_range(valid, least_span=_LEAST_SPAN) if valid else (0.0, 1.0)
    y = Scale(low, high, BOTTOM - MARGIN, MARGIN)
    step = (WIDTH - LEFT - MARGIN) / max(len(history.commits), 1)
    unit = line(report.any_samples(test).unit)
    factor = _MEGA if unit == "pps" else 1.0

    def x(commit: str) -> float:
        return round(LEFT + step * (history.index(commit) + 1), 1)

    def dot(commit: str, average: float | None) -> Dot:
        text = "failed" if average is None else value(average, unit)
        height = round(y(low if average is None else average), 1)
        return Dot(x(commit), height, f"{texts.commit(report, commit)}: {text}")

    width = min(max(step, _NARROWEST), _WIDEST)
    return Plot(
        test=line(test),
        dots=tuple(dot(*each) for each in averages if each[1] is not None),
        failed=tuple(dot(*each) for each in averages if each[1] is None),
        changes=tuple(
            (round(x(commit) - width / 2, 1), round(width, 1))
            for culprit in report.outcome.culprits
            for commit in culprit.commits
        ),
        bars="".join(_bars(report, x, width)),
        unit="Mpps" if unit == "pps" else unit,
        levels=tuple(
            (round(y(tick.value * factor), 1), tick.text)
            for tick in ticks(low / factor, high / factor, _MOST_TICKS)
        ),
        commits=tuple(_commit_labels(report, x)),
    )


def _commit_labels(report: BisectReport, x: Callable[[str], float]) -> Iterator[CommitLabel]:
    """Yield the names of the culprits and of the ends of the range that do not cover each other."""
    culprits = (commit for culprit in report.outcome.culprits for commit in culprit.commits)
    placed: list[float] = []
    for commit in dict.fromkeys([*culprits, report.state.range.old, report.state.history.new]):
        place = x(commit)
        is_last = place > WIDTH - _NAME_WIDTH / 2
        middle = WIDTH - _NAME_WIDTH / 2 if is_last else place
        if all(abs(middle - other) >= _NAME_WIDTH for other in placed):
            placed.append(middle)
            reference = References(report.settings).commit(commit)
            yield CommitLabel(WIDTH if is_last else place, "end" if is_last else "middle", reference)


def _bars(report: BisectReport, x: Callable[[str], float], width: float) -> Iterator[str]:
    for suspected in report.outcome.belief:
        if suspected.probability < _LEAST_PROBABILITY:
            continue
        height = round(suspected.probability * BARS, 1)
        for commit in suspected.commits:
            yield f"M{x(commit) - width / 2:.1f} {BASE}v{-height}h{width:.1f}v{height}z"
