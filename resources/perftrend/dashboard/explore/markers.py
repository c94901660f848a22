"""Markers in the plot: changes of the lines, and users' notes on commits.

The analysis engine finds the changes. A trace is analysed over the columns of the tile, with a history before
and some columns after them: whether a step is a change depends on both. Results are cached by the values of
the trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

import numpy as np

from perftrend.analysis import Criteria, Significance
from perftrend.analysis.change_details import ReportedChanges, find_reported_changes
from perftrend.analysis.reportable_changes import ReportingRule
from perftrend.dashboard.explore.lines import PointLine
from perftrend.dashboard.explore.models import CommitNote, Explore, PlotChange
from perftrend.dashboard.explore.window import Window
from perftrend.model import Better, Change
from perftrend.settings.sections import AnalysisSettings

MOST_TRACES = 50
"""Maximum number of traces that are searched for changes."""
MOST_COLUMNS = 2200
"""Maximum number of columns of each trace: those of a tile of scale 2, with their history."""
MOST_NOTED_COLUMNS = 2200
"""Maximum number of columns of a tile whose notes are read."""
MOST_LISTED = 100
"""Maximum number of changes and notes that are listed."""
_CACHE_SIZE = 2000


@dataclass(frozen=True, slots=True)
class Marker:
    """A change of a line."""

    identity: str
    point: int
    """Index in the tile, from 0."""
    column: int
    """The first column after the change."""
    change: Change
    suspected: bool
    """Whether it is only suspected: a single outlier run, or a change that the newest run hints at."""


def markers(window: Window, lines: Iterable[PointLine], settings: AnalysisSettings) -> list[Marker] | None:
    """Return the changes of traces within a tile; calculated lines have those of their trace.

    :returns: None if the tile covers too much time, or too many traces are shown.
    """
    wanted = [line for line in lines if line.trace]
    if len(wanted) > MOST_TRACES or len(window.columns) + 2 * settings.history > MOST_COLUMNS:
        return None
    first = max(window.columns.start - settings.history, 0)
    last = min(window.columns.stop + settings.history, len(window.axis.columns))
    if not wanted or first == last:
        return []
    place_of = window.traces.table.place_of
    places = np.array([place_of[line.trace.key] for line in wanted if line.trace], dtype=np.intp)
    values = window.read(places, range(first, last))
    found: list[Marker] = []
    for line, row in zip(wanted, values, strict=True):
        better = line.trace.better if line.trace else Better.HIGHER
        reported = _detect_changes(np.ascontiguousarray(row).tobytes(), _rule(settings, better))
        found += _within(window, line.identity, first, reported.changes, suspected=False)
        found += _within(window, line.identity, first, reported.suspected, suspected=True)
    return found


def _within(
    window: Window, identity: str, first: int, changes: Iterable[Change], *, suspected: bool
) -> Iterator[Marker]:
    for change in changes:
        column = first + change.position
        point = window.point_of(column)
        if point is not None:
            yield Marker(identity, point, column, change, suspected)


def _rule(settings: AnalysisSettings, better: Better) -> ReportingRule:
    significance = Significance(minimum_change=settings.minimum_change)
    criteria = Criteria(formula=settings.formula, outliers=settings.outliers, significance=significance)
    return criteria.rule(better)


@lru_cache(maxsize=_CACHE_SIZE)
def _detect_changes(packed: bytes, rule: ReportingRule) -> ReportedChanges:
    """Return the reported and the suspected changes of a trace.

    :param packed: its values, float64.
    """
    samples = np.frombuffer(packed)
    return find_reported_changes(samples, rule) if np.isfinite(samples).any() else ReportedChanges((), ())


def notes(window: Window) -> list[CommitNote]:
    """Return the annotations of the commits that are shown, in the order of time; none for coarse tiles."""
    if len(window.columns) > MOST_NOTED_COLUMNS:
        return []
    columns = window.axis.columns[window.columns.start : window.columns.stop]
    by_revision = window.store.annotations.of(
        {each.revision for each in columns}, testbed=window.axis.testbed
    )
    found = []
    for number, column in zip(window.columns, columns, strict=True):
        point = window.point_of(number)
        if point is None:
            continue
        found += [
            CommitNote(point=point, column=number, commit=column.revision, text=each.text, user=each.author)
            for each in by_revision.get(column.revision, ())
        ]
    return found


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """A change of a line, or a user's note on a commit."""

    started: datetime
    """When its commit was first measured."""
    commit: str
    change: PlotChange | None
    note: CommitNote | None
    what: str
    """The label of the line, or the text of the note."""


def happenings(answer: Explore) -> list[TimelineEvent]:
    """Return the changes and notes that are marked in the plot, at most a hundred."""
    label_of = {line.id: line.label for line in answer.lines}
    points = answer.points
    found = [
        TimelineEvent(points[each.point].started, points[each.point].commit, each, None, label_of[each.trace])
        for each in answer.changes
    ]
    found += [
        TimelineEvent(points[each.point].started, each.commit, None, each, each.text) for each in answer.notes
    ]
    return sorted(found, key=lambda each: each.started, reverse=True)[:MOST_LISTED]
