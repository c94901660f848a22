"""The folder of a per-patch test's report: a page, the same as JSON, the message and the console's text.

The page is plain HTML with a separate style sheet, so that it displays under Jenkins's policy for artifacts.
"""

from __future__ import annotations

from pathlib import Path

from perftrend.report.folder import CONSOLE, INDEX, MESSAGE, STYLE, dumped, rendered, style, write_files
from perftrend.report.perftest import words
from perftrend.report.perftest.console import console
from perftrend.report.perftest.contents import Report
from perftrend.report.perftest.document import document
from perftrend.report.perftest.gerrit import message
from perftrend.report.prose import excerpt

DOCUMENT = "perftest.json"


def write(directory: Path, report: Report) -> Path:
    """Write the report into a directory: see :func:`perftrend.report.folder.write_files`."""
    return write_files(directory, files(report))


def files(report: Report) -> dict[str, str]:
    """Return all files of a report by name."""
    return {
        INDEX: _page(report),
        STYLE: style("perftest.css"),
        DOCUMENT: dumped(document(report)),
        MESSAGE: message(report),
        CONSOLE: console(report),
    }


def _page(report: Report) -> str:
    verdict = report.verdict
    return rendered(
        "perftest.html",
        report=report,
        verdict=verdict,
        subject=report.subject,
        sentence=words.sentence(report),
        notes=words.notes(report),
        legend=words.legend(report),
        rows=words.rows(verdict.tests),
        last_lines=excerpt(verdict.broken.last_lines) if verdict.broken else [],
    )
