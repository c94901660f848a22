"""The folder of a bisection's report: a page, the same as JSON, the message and the console's text.

The page is plain HTML with a style sheet beside it, so that it shows under Jenkins's policy for artifacts.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path

from perftrend.bisect import Kind
from perftrend.report import page
from perftrend.report.bisection import plot, words
from perftrend.report.bisection.console import console
from perftrend.report.bisection.contents import Report
from perftrend.report.bisection.document import document
from perftrend.report.bisection.gerrit import message
from perftrend.report.bisection.table import effects, measured
from perftrend.report.markup import environment
from perftrend.report.prose import excerpt, line
from perftrend.report.replace import replaced
from perftrend.report.table import plain

INDEX, DOCUMENT, MESSAGE, CONSOLE = "index.html", "bisection.json", "message.txt", "console.txt"


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
        "style.css": "".join(map(_template, ("style.css", "perftest.css", "bisection.css"))),
        DOCUMENT: json.dumps(document(report), allow_nan=False, indent=1) + "\n",
        MESSAGE: message(report),
        CONSOLE: console(report),
    }


def _page(report: Report) -> str:
    found = environment()
    found.filters |= {"plain": plain, "moment": _moment}
    return found.get_template("bisection.html").render(
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


def _template(name: str) -> str:
    return resources.files("perftrend.report").joinpath("templates", name).read_text("utf-8")


def _moment(moment: datetime | None) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}" if moment else ""
