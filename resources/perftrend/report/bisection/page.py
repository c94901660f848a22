"""The folder of a bisection's report: a page, the same as JSON, the message and the console's text.

The page is plain HTML with a separate style sheet, so that it displays under Jenkins's policy for artifacts.
"""

from __future__ import annotations

from pathlib import Path

from perftrend.bisect import Kind
from perftrend.report.bisection import plot, words
from perftrend.report.bisection.console import console
from perftrend.report.bisection.contents import Report
from perftrend.report.bisection.document import document
from perftrend.report.bisection.gerrit import message
from perftrend.report.bisection.table import effects, measured
from perftrend.report.folder import CONSOLE, INDEX, MESSAGE, STYLE, dumped, rendered, style, write_files
from perftrend.report.prose import excerpt, line

DOCUMENT = "bisection.json"


def write(directory: Path, report: Report) -> Path:
    """Write the report into a directory: see :func:`perftrend.report.folder.write_files`."""
    return write_files(directory, files(report))


def files(report: Report) -> dict[str, str]:
    """Return all files of a report by name."""
    return {
        INDEX: _page(report),
        STYLE: style("perftest.css", "bisection.css"),
        DOCUMENT: dumped(document(report)),
        MESSAGE: message(report),
        CONSOLE: console(report),
    }


def _page(report: Report) -> str:
    return rendered(
        "bisection.html",
        report=report,
        subject=report.subject,
        sentence=words.sentence(report),
        state="fail" if report.regressed else "pass" if report.outcome.kind is Kind.FOUND else "open",
        culprits=[
            {
                "name": words.among(report, each.commits),
                "author": words.author(report, each.commits[0]) if len(each.commits) == 1 else "",
                "commits": each.commits,
                "diff": excerpt(report.diffs.get(each.commits[0], ())) if len(each.commits) == 1 else (),
                "rows": effects(report, each),
            }
            for each in report.outcome.culprits
        ],
        measured=measured(report, report.tests),
        last_lines=excerpt(report.last_lines),
        picture=plot,
        plots=plot.plots(report),
        belief=[words.suspicion(report, each) for each in report.outcome.belief],
        searched=words.searched(report),
        notes=words.notes(report),
        command=line(report.command),
    )
