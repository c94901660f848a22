"""What is seen as CSV: a row for each point, a column for each line.

A spreadsheet takes a text that begins with ``=``, ``+``, ``-``, ``@`` or a blank of some kinds for a formula,
and would calculate it. An apostrophe before it makes it a text.
"""

from __future__ import annotations

import csv
import io
import re
from datetime import UTC

from perftrend.dashboard.explore.model import Explore

_FORMULA = re.compile(r"[\s\x00\ufeff'\"]*[=+\-@\uff1d\uff0b\uff0d\uff20|%]|[\t\r\n]")


def as_csv(answer: Explore) -> str:
    """Return what is drawn; values in the units of the store, empty where there is none."""
    written = io.StringIO(newline="")
    writer = csv.writer(written)
    writer.writerow(
        ["column", "commit", "started", *(neutral(_title(line.id, line.unit)) for line in answer.lines)]
    )
    for place, point in enumerate(answer.points):
        started = point.started.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        values = ["" if line.values[place] is None else line.values[place] for line in answer.lines]
        writer.writerow([point.column, neutral(point.commit), started, *values])
    return written.getvalue()


def neutral(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if _FORMULA.match(text) else text


def _title(identity: str, unit: str) -> str:
    return f"{identity} {unit}".rstrip()
