"""The folder of a report with a single page: plain HTML, its style sheet, and the same in other formats.

The page needs no script, so that it displays under Jenkins's policy for artifacts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from perftrend.report import page
from perftrend.report.markup import environment
from perftrend.report.replace import replace_directory
from perftrend.wording import plain

INDEX, STYLE, MESSAGE, CONSOLE = page.INDEX, "style.css", "message.txt", "console.txt"


def write_files(directory: Path, files: Mapping[str, str]) -> Path:
    """Write a report into a directory of its own, and replace an old report as a whole.

    :param files: their texts by name.
    :returns: the path of the page.
    :raises UsageError: if the directory contains anything that is not part of a report.
    :raises OSError: if it cannot be written; an old report is then unchanged.
    """
    with replace_directory(directory, names=page.NAMES) as fresh:
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


def _moment(moment: datetime | None) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}" if moment else ""


def _use_minus_sign(text: str) -> str:
    """Replace hyphens by the true minus sign, which is as wide as the plus."""
    return text.replace("-", "\N{MINUS SIGN}")
