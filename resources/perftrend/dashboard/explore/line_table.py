"""The list of lines below the plot. A long one is sorted and cut here, so that the page remains quick."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter

from perftrend.dashboard.explore.models import Explore, Number, PlotLine
from perftrend.dashboard.explore.state import ExploreState, Sort, SortKey
from perftrend.text import natural_key

MOST_ROWS = 100
"""Maximum number of lines that are listed unless all are requested."""


@dataclass(frozen=True, slots=True)
class ColumnHeading:
    """The heading of a column."""

    words: str
    url: str = ""
    """The page sorted by this column; empty: the browser sorts."""
    order: str = ""
    """``ascending``, ``descending``, or empty: the list is not sorted by this column."""


@dataclass(frozen=True, slots=True)
class LineTable:
    """The list of lines."""

    headings: list[ColumnHeading]
    rows: list[tuple[int, PlotLine]]
    """Lines with their numbers, which select their colours."""
    whole: str = ""
    """The page with all lines; empty: all are listed."""


def line_table(answer: Explore, state: ExploreState) -> LineTable:
    """Return the list of the lines of a response."""
    rows = list(enumerate(answer.lines))
    if len(rows) <= MOST_ROWS:
        return LineTable([ColumnHeading(key.words) for key in SortKey], rows)
    headings = [
        ColumnHeading(
            key.words,
            state.but(sort=state.sort.then(key)).url,
            ("descending" if state.sort.descending else "ascending") * (key is state.sort.key),
        )
        for key in SortKey
    ]
    rows = _sort(rows, state.sort)
    if state.all_rows:
        return LineTable(headings, rows)
    looked = answer.point.trace if answer.point else None
    cut = [row for row in rows[MOST_ROWS:] if row[1].id == looked] + rows[:MOST_ROWS]
    return LineTable(headings, cut, state.but(all_rows=True).url)


def _distance(line: PlotLine) -> Number:
    return None if line.change is None else abs(line.change)


_NUMBERS: Mapping[SortKey, Callable[[PlotLine], Number]] = {
    SortKey.NEWEST: attrgetter("newest"),
    SortKey.MEAN: attrgetter("mean"),
    SortKey.CHANGE: _distance,
    SortKey.CHANGES: attrgetter("changes"),
}


def _sort(rows: list[tuple[int, PlotLine]], order: Sort) -> list[tuple[int, PlotLine]]:
    """Sort rows; those without a value are the last."""
    if order.key is SortKey.LINE:
        return sorted(rows, key=lambda row: natural_key(row[1].label), reverse=order.descending)
    number = _NUMBERS[order.key]
    known = [row for row in rows if number(row[1]) is not None]
    known.sort(key=lambda row: number(row[1]) or 0.0, reverse=order.descending)
    return known + [row for row in rows if number(row[1]) is None]
