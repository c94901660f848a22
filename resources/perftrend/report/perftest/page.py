"""The folder of a per-patch test's report: a page, the same as JSON, the message and the console's text.

The page is plain HTML with a style sheet beside it, so that it shows under Jenkins's policy for artifacts.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path

import jinja2

from perftrend.report import page
from perftrend.report.markup import environment
from perftrend.report.perftest import words
from perftrend.report.perftest.console import console
from perftrend.report.perftest.contents import Report
from perftrend.report.perftest.document import document
from perftrend.report.perftest.gerrit import message
from perftrend.report.prose import excerpt
from perftrend.report.replace import replaced
from perftrend.report.table import plain

INDEX, DOCUMENT, MESSAGE, CONSOLE = "index.html", "perftest.json", "message.txt", "console.txt"


def write(directory: Path, report: Report) -> Path:
    """Write the report into a directory of its own, whose old report it replaces whole.

    :returns: the path of the page.
    :raises UsageError: if the directory holds anything that is no part of a report.
    :raises OSError: if it cannot be written; an old report stays as it was then.
    """
    with replaced(directory, names=page.NAMES) as fresh:
        for name, text in files(report).items():
            (fresh / name).write_text(text, encoding="utf-8")
    return directory / INDEX


def files(report: Report) -> dict[str, str]:
    """Return all files of a report by name."""
    return {
        INDEX: _page(report),
        "style.css": _template("style.css") + _template("perftest.css"),
        DOCUMENT: json.dumps(document(report), allow_nan=False, indent=1) + "\n",
        MESSAGE: message(report),
        CONSOLE: console(report),
    }


def _page(report: Report) -> str:
    verdict = report.verdict
    return (
        _environment()
        .get_template("perftest.html")
        .render(
            report=report,
            verdict=verdict,
            subject=report.subject,
            sentence=words.sentence(report),
            notes=words.notes(report),
            legend=words.legend(report),
            rows=words.rows(verdict.tests),
            last_lines=excerpt(verdict.broken.last_lines) if verdict.broken else [],
        )
    )


def _environment() -> jinja2.Environment:
    found = environment()
    found.filters |= {"plain": plain, "moment": _moment, "signed": _signed}
    return found


def _template(name: str) -> str:
    return resources.files("perftrend.report").joinpath("templates", name).read_text("utf-8")


def _moment(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}"


def _signed(text: str) -> str:
    """Write a true minus sign, as wide as the plus."""
    return text.replace("-", "\N{MINUS SIGN}")
