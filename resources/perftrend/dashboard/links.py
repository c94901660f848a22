"""Addresses of the plot of traces, in addition to those that reports have as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Self
from urllib.parse import urlencode

from perftrend.links import external, of_change, of_commit, of_run
from perftrend.store.shortcuts import LONGEST_SHORTCUT, MOST_TRACES
from perftrend.store.tiles import POINTS, tile_of

__all__ = [
    "EXPLORE",
    "MOST_IDS",
    "PlotPart",
    "external",
    "fit_shortcut",
    "of_change",
    "of_column",
    "of_commit",
    "of_plot",
    "of_query",
    "of_run",
]

EXPLORE = "/explore"
"""The path of Explore."""
MOST_IDS = 50
"""Maximum number of traces in one address; use a shortcut for more."""


@dataclass(frozen=True, slots=True)
class PlotPart:
    """The visible part of the time in a plot of single commits."""

    columns: range
    """The columns that are zoomed to."""
    tile: int | None
    """None: the newest."""
    points: int
    """Number of points that end with the tile."""

    @classmethod
    def of(cls, columns: range, count: int) -> Self:
        """Return the part that shows some columns.

        :param columns: not empty.
        :param count: the number of all columns.
        """
        if columns.start >= count - POINTS:
            return cls(columns, None, POINTS)
        tile = tile_of(columns[-1], 0)
        points = POINTS
        while tile.points.stop - points > columns.start:
            points *= 2
        return cls(columns, tile.number, points)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The names and values of the address; the first and the last point are not at the very edge."""
        first, last = self.columns[0] - 0.5, self.columns[-1] + 0.5
        return [
            ("tile", "" if self.tile is None else str(self.tile)),
            ("points", "" if self.points == POINTS else str(self.points)),
            ("x", f"{first:.1f}..{last:.1f}"),
        ]


def of_query(*, testbed: str, query: str) -> str:
    """Return the address of the plot of the traces that match a query."""
    chosen = [("testbed", testbed), ("q", query)]
    return f"{EXPLORE}?{urlencode([pair for pair in chosen if pair[1]])}"


def of_column(testbed: str, column: int) -> str:
    """Return the address of the plot around a column of a testbed."""
    return f"{EXPLORE}?{urlencode({'testbed': testbed, 'at': column})}"


def fit_shortcut(ids: Sequence[str]) -> list[str]:
    """Return the first ids, as many as fit into a shortcut."""
    first = ids[:MOST_TRACES]
    lengths = accumulate(len(each) + 3 for each in first)
    return [each for each, length in zip(first, lengths, strict=True) if length < LONGEST_SHORTCUT]


def of_plot(
    *,
    testbed: str = "",
    ids: Sequence[str] = (),
    shortcut: str = "",
    part: PlotPart | None = None,
    point: tuple[int, str] | None = None,
    since: int | None = None,
) -> str:
    """Return the address of the plot of traces, on this dashboard.

    :param testbed: testbed whose commits are the points; empty: the one of the settings.
    :param ids: ids of traces, at most :data:`MOST_IDS`.
    :param shortcut: id of a shortcut; empty: none.
    :param part: the visible part; None: the newest tile.
    :param point: column and trace id of the selected point; None: none is selected.
    :param since: column of the other point that it is compared with; None: the value before it.
    """
    chosen = [("testbed", testbed), *(("id", each) for each in ids), ("shortcut", shortcut)]
    chosen += part.pairs if part else []
    chosen += [("at", str(point[0])), ("of", point[1])] if point else []
    chosen += [("since", str(since))] if since is not None else []
    return f"{EXPLORE}?{urlencode([pair for pair in chosen if pair[1]])}"
