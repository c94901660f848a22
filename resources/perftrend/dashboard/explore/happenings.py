"""Timeline of the plot: changes of lines and notes on commits, the newest first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from perftrend.dashboard.explore.model import Change, Explore, Note

MOST_LISTED = 100


@dataclass(frozen=True, slots=True)
class Happening:
    """A change of a line, or a user's note on a commit."""

    started: datetime
    """When its commit was first measured."""
    commit: str
    change: Change | None
    note: Note | None
    what: str
    """The label of the line, or the text of the note."""


def happenings(answer: Explore) -> list[Happening]:
    """Return the changes and notes that are marked in the plot, at most a hundred."""
    label_of = {line.id: line.label for line in answer.lines}
    points = answer.points
    found = [
        Happening(points[each.point].started, points[each.point].commit, each, None, label_of[each.trace])
        for each in answer.changes
    ]
    found += [
        Happening(points[each.point].started, each.commit, None, each, each.text) for each in answer.notes
    ]
    return sorted(found, key=lambda each: each.started, reverse=True)[:MOST_LISTED]
