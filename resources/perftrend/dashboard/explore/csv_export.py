"""CSV export of the plot: a row for each point, a column for each line.

Spreadsheets evaluate a text as a formula if it begins with ``=``, ``+``, ``-``, ``@`` or some kinds of
whitespace. A leading apostrophe prevents that.
"""

from __future__ import annotations

import csv
import io
import re
from datetime import UTC

from perftrend.dashboard.explore.models import Explore

_FORMULA = re.compile(r"[\s\x00\ufeff'\"]*[=+\-@\uff1d\uff0b\uff0d\uff20|%]|[\t\r\n]")


def as_csv(answer: Explore) -> str:
    """Return the plot as CSV; values are in the units of the store, and empty if missing."""
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
    """Return a text that spreadsheets do not evaluate as a formula."""
    return f"'{text}" if _FORMULA.match(text) else text


def _title(identity: str, unit: str) -> str:
    return f"{identity} {unit}".rstrip()
