"""The folder of a report: its file names, the templates of its pages, and its replacement as a whole.

A single page needs no script, so that it displays under Jenkins's policy for artifacts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from perftrend.analysis.instructions import InstructionDifference
from perftrend.errors import UsageError
from perftrend.files import replace_directory
from perftrend.text import plain

INDEX, STYLE, MESSAGE, CONSOLE = "index.html", "style.css", "message.txt", "console.txt"
NAMES = frozenset(
    {INDEX, STYLE, "report.js", "plotly.min.js", "report.json", "data", "mails"}
    | {"perftest.json", "bisection.json", MESSAGE, CONSOLE}
)
"""All names in the folder of any kind of report; the mails are written after the report."""


def write_files(directory: Path, files: Mapping[str, str]) -> Path:
    """Write a report into a directory of its own, and replace an old report as a whole.

    :param files: their texts by name.
    :returns: the path of the page.
    :raises UsageError: if the directory contains anything that is not part of a report.
    :raises OSError: if it cannot be written; an old report is then unchanged.
    """
    with replace_report(directory) as fresh:
        for name, text in files.items():
            (fresh / name).write_text(text, encoding="utf-8")
    return directory / INDEX


def render(template: str, **values: object) -> str:
    """Render a page."""
    return _templates().get_template(template).render(**values)


@cache
def _templates() -> jinja2.Environment:
    # A search writes its page after each step, so the compiled template is cached.
    found = environment()
    found.filters |= {"plain": plain, "moment": _moment, "signed": _use_minus_sign}
    return found


def style(*names: str) -> str:
    """Return the style sheet of all reports, followed by those for some kinds of reports."""
    folder = resources.files("perftrend.report").joinpath("templates")
    return "".join(folder.joinpath(name).read_text("utf-8") for name in (STYLE, *names))


def format_json(document: Mapping[str, Any]) -> str:
    """Return a report's document as JSON."""
    return json.dumps(document, allow_nan=False, indent=1) + "\n"


def instructions(difference: InstructionDifference) -> dict[str, Any]:
    """Return the difference of the instructions of two builds as documents have it."""
    return {
        "relative": difference.relative,
        "spread": difference.spread,
        "functions": [
            {"function": plain(each.function), "share": each.share} for each in difference.functions
        ],
    }


def iso_time(moment: datetime | None) -> str | None:
    """Return a time as documents have it: in UTC, with a Z; None if there is none."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z") if moment else None


def _moment(moment: datetime | None) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}" if moment else ""


def _use_minus_sign(text: str) -> str:
    """Replace hyphens by the true minus sign, which is as wide as the plus."""
    return text.replace("-", "\N{MINUS SIGN}")


@contextmanager
def replace_report(directory: Path) -> Iterator[Path]:
    """Yield an empty directory to fill, which replaces an old report at the end.

    :param directory: the directory of the report; its parents are created.
    :raises UsageError: if it contains anything that is not part of a report, or is a file.
    :raises OSError: if a file cannot be written; nothing is changed then.
    """
    _refuse_foreign(directory.resolve())
    with replace_directory(directory) as fresh:
        yield fresh


def _refuse_foreign(target: Path) -> None:
    if not target.exists():
        return
    if not target.is_dir():
        raise UsageError(f"{target} is a file; name a directory for the report")
    foreign = sorted(entry.name for entry in target.iterdir() if entry.name not in NAMES)
    if foreign:
        raise UsageError(
            f"{target} contains {foreign[0]!r}, which is not part of a report; name a separate directory"
        )


def environment() -> jinja2.Environment:
    """Return an environment of HTML and SVG templates.

    It escapes everything, and raises errors for undefined variables.
    """
    return jinja2.Environment(
        loader=jinja2.PackageLoader(__package__),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
