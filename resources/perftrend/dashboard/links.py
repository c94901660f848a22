"""Addresses of the plot of traces, in addition to those that reports have as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from urllib.parse import urlencode

from perftrend.links import external, of_change, of_commit, of_run
from perftrend.store.shortcuts import LONGEST_SHORTCUT, MOST_TRACES
from perftrend.store.tiles import COARSEST, POINTS, columns_of_point, points_of, tile_of

__all__ = [
    "EXPLORE",
    "MOST_IDS",
    "PlotPart",
    "external",
    "fit_shortcut",
    "of_change",
    "of_commit",
    "of_plot",
    "of_run",
    "part_with",
]

EXPLORE = "/explore"
"""The path of Explore."""
MOST_IDS = 50
"""Maximum number of traces in one address; use a shortcut for more."""


@dataclass(frozen=True, slots=True)
class PlotPart:
    """The visible part of the time in a plot."""

    scale: int
    tile: int | None
    """None: the newest."""
    columns: range

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The names and values of the address; the first and the last point are not at the very edge."""
        first, last = self.columns[0] - 0.5, self.columns[-1] + 0.5
        return [
            ("scale", str(self.scale) if self.scale else ""),
            ("tile", "" if self.tile is None else str(self.tile)),
            ("x", f"{first:.1f}..{last:.1f}"),
        ]


def part_with(columns: range, count: int) -> PlotPart:
    """Return the part of a plot that shows some columns, at the finest scale at which it shows all of them.

    :param columns: not empty.
    :param count: the number of all columns.
    """
    for scale in range(COARSEST):
        newest = max(points_of(count, scale) - POINTS, 0) * columns_of_point(scale)
        if columns.start >= newest:
            return PlotPart(scale, None, columns)
        first, last = tile_of(columns[0], scale), tile_of(columns[-1], scale)
        if first == last:
            return PlotPart(scale, first.number, columns)
    return PlotPart(COARSEST, tile_of(columns[-1], COARSEST).number, columns)


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
) -> str:
    """Return the address of the plot of traces, on this dashboard.

    :param testbed: testbed whose commits are the points; empty: the one of the settings.
    :param ids: ids of traces, at most :data:`MOST_IDS`.
    :param shortcut: id of a shortcut; empty: none.
    :param part: the visible part; None: the newest tile.
    :param point: column and trace id of the selected point; None: none is selected.
    """
    chosen = [("testbed", testbed), *(("id", each) for each in ids), ("shortcut", shortcut)]
    chosen += part.pairs if part else []
    chosen += [("at", str(point[0])), ("of", point[1])] if point else []
    return f"{EXPLORE}?{urlencode([pair for pair in chosen if pair[1]])}"
