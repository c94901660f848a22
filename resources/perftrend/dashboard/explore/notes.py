"""Notes of users on the commits of a tile."""

from __future__ import annotations

from perftrend.dashboard.explore.model import Note
from perftrend.dashboard.explore.window import Window

MOST_COLUMNS = 2200
"""Maximum number of columns of a tile whose notes are read."""


def notes(window: Window) -> list[Note]:
    """Return the annotations of the commits that are shown, in the order of time; none for coarse tiles."""
    if len(window.columns) > MOST_COLUMNS:
        return []
    columns = window.axis.columns[window.columns.start : window.columns.stop]
    said = window.store.annotations.of({each.revision for each in columns}, testbed=window.axis.testbed)
    found = []
    for number, column in zip(window.columns, columns, strict=True):
        point = window.point_of(number)
        if point is None:
            continue
        found += [
            Note(point=point, column=number, commit=column.revision, text=each.text, user=each.author)
            for each in said.get(column.revision, ())
        ]
    return found
