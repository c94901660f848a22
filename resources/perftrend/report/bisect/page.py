"""The folder of a bisection's report: a page, the same as JSON, the message and the console's text.

The page is plain HTML with a separate style sheet, so that it displays under Jenkins's policy for artifacts.
"""

from __future__ import annotations

from pathlib import Path

from perftrend.bisect import OutcomeKind
from perftrend.report.bisect import plot, texts
from perftrend.report.bisect.console import console
from perftrend.report.bisect.contents import BisectReport
from perftrend.report.bisect.document import document
from perftrend.report.bisect.gerrit import message
from perftrend.report.bisect.table import effects, measurements
from perftrend.report.folder import CONSOLE, INDEX, MESSAGE, STYLE, format_json, render, style, write_files
from perftrend.report.prose import excerpt, line

DOCUMENT = "bisection.json"


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
        report=report,
        subject=report.subject,
        sentence=texts.sentence(report),
        state="fail" if report.regressed else "pass" if report.outcome.kind is OutcomeKind.FOUND else "open",
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
