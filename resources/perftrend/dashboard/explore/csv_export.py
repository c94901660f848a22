"""CSV export of the plot: a row for each point, a column for each line.

Spreadsheets evaluate a text as a formula if it begins with ``=``, ``+``, ``-``, ``@`` or some kinds of
whitespace. A leading apostrophe prevents that.
"""

from __future__ import annotations

import csv
import io
from datetime import UTC

import numpy as np

from perftrend.dashboard.explore.models import Explore
from perftrend.dashboard.formats import as_cell


def as_csv(answer: Explore) -> str:
    """Return the plot as CSV; values are in the units of the store, and empty if missing."""
    written = io.StringIO(newline="")
    writer = csv.writer(written)
    writer.writerow(
        ["column", "commit", "started", *(as_cell(_title(line.id, line.unit)) for line in answer.lines)]
    )
    columns = np.array([line.values for line in answer.lines]).T.tolist() or [[] for _ in answer.points]
    for place, point in enumerate(answer.points):
        started = point.started.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        values = ["" if value != value else value for value in columns[place]]  # noqa: PLR0124 - NaN
        writer.writerow([point.column, as_cell(point.commit), started, *values])
    return written.getvalue()


def _title(identity: str, unit: str) -> str:
    return f"{identity} {unit}".rstrip()
