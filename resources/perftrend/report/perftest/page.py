"""The folder of a per-patch test's report: a page, the same as JSON, the message and the console's text.

The page is plain HTML with a separate style sheet, so that it displays under Jenkins's policy for artifacts.
"""

from __future__ import annotations

from pathlib import Path

from perftrend.report.folder import CONSOLE, INDEX, MESSAGE, STYLE, format_json, render, style, write_files
from perftrend.report.perftest import texts
from perftrend.report.perftest.console import console
from perftrend.report.perftest.contents import PerftestReport
from perftrend.report.perftest.document import document
from perftrend.report.perftest.gerrit import message
from perftrend.report.prose import excerpt

DOCUMENT = "perftest.json"


def write(directory: Path, report: PerftestReport) -> Path:
    """Write the report into a directory: see :func:`perftrend.report.folder.write_files`."""
    return write_files(directory, files(report))


def files(report: PerftestReport) -> dict[str, str]:
    """Return all files of a report by name."""
    return {
        INDEX: _page(report),
        STYLE: style("perftest.css"),
        DOCUMENT: format_json(document(report)),
        MESSAGE: message(report),
        CONSOLE: console(report),
    }


def _page(report: PerftestReport) -> str:
    verdict = report.verdict
    return render(
        "perftest.html",
        report=report,
        verdict=verdict,
        subject=report.subject,
        sentence=texts.sentence(report),
        notes=texts.notes(report),
        legend=texts.legend(report),
        rows=texts.rows(verdict.tests),
        last_lines=excerpt(verdict.broken.last_lines) if verdict.broken else [],
    )
