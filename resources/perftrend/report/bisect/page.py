"""The folder of a bisection's report: a page, the same as JSON, the message and the console's text.

The page is plain HTML with a separate style sheet, so that it displays under Jenkins's policy for artifacts.
The JSON has everything that the message and the page show, and all samples. It has no NaN, so a value that
does not exist is null.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from perftrend.bisect import Culprit, Effect, OutcomeKind, Suspicion
from perftrend.model import BuildMeasurement, finite
from perftrend.report.bisect import plot, texts
from perftrend.report.bisect.contents import BisectReport
from perftrend.report.bisect.messages import console, message
from perftrend.report.bisect.texts import effects, measurements
from perftrend.report.folder import (
    CONSOLE,
    INDEX,
    MESSAGE,
    STYLE,
    format_json,
    iso_time,
    render,
    style,
    write_files,
)
from perftrend.text import excerpt, line, plain

DOCUMENT = "bisection.json"
FORMAT = "perftrend-bisection-report-1"
"""The first key of the document; the number is increased if a key changes its meaning."""


def write(directory: Path, report: BisectReport) -> Path:
    """Write the report into a directory: see :func:`perftrend.report.folder.write_files`."""
    return write_files(directory, files(report))


def files(report: BisectReport) -> dict[str, str]:
    """Return all files of a report by name."""
    return {
        INDEX: _page(report),
        STYLE: style("perftest.css", "bisection.css"),
        DOCUMENT: format_json(document(report)),
        MESSAGE: message(report),
        CONSOLE: console(report),
    }


def _page(report: BisectReport) -> str:
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
        last_lines=excerpt(report.last_lines),
        picture=plot,
        plots=plot.plots(report),
        belief=[texts.suspicion(report, each) for each in report.outcome.belief],
        searched=texts.search_scope(report),
        notes=texts.notes(report),
        command=line(report.command),
    )


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
        "testbed": plain(subject.testbed),
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
        "smallest_visible": {plain(test): finite(size) for test, size in outcome.smallest_visible.items()},
        "remaining": outcome.remaining,
        "commits": [_commit(report, each) for each in (state.range.old, *state.history.commits)],
        "measurements": [_measurement(each) for each in state.measured],
        "last_lines": [plain(text) for text in report.last_lines],
        "notes": texts.notes(report),
        "command": plain(report.command) or None,
        "archive": plain(report.archive) or None,
    }


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
