"""Tiles and their scales: which points a tile has, and how a person moves among them.

A tile has 128 points. At scale 0 a point is one column: one commit, see
:mod:`perftrend.store.tiles.columns`. At each further scale, up to 5, a point covers four points of the
scale before, so 4^scale columns. Tile and points are counted from the beginning of time, and only the
newest tile of a scale may be short.

Source: "Skia Perf: Design", sections Architecture and Navigating. It names the factor 4 and says in the
same breath that the number of the tile is divided by two when zooming out. Four is what keeps the
columns in view, and is what is done here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from perftrend.errors import UsageError

POINTS = 128
"""Of a tile."""
FACTOR = 4
"""Points of a scale that one point of the next scale covers."""
COARSEST = 5


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile of an axis, to look at and to move from."""

    scale: int
    number: int

    @property
    def points(self) -> range:
        """The points of the tile at its scale."""
        return range(self.number * POINTS, (self.number + 1) * POINTS)

    @property
    def columns(self) -> range:
        """The columns that the tile covers."""
        size = columns_of_point(self.scale)
        return range(self.points.start * size, self.points.stop * size)

    def exists(self, columns: int) -> bool:
        """Whether an axis of so many columns has the tile; an empty one has the very first."""
        return self == Tile(0, 0) or self.columns.start < columns

    def left(self) -> Tile:
        """``<``: one tile back in time; the first one stays."""
        return replace(self, number=max(self.number - 1, 0))

    def right(self, columns: int) -> Tile:
        """``>``: one tile on in time; the newest one of an axis of so many columns stays."""
        following = replace(self, number=self.number + 1)
        return following if following.exists(columns) else self

    def zoomed_out(self) -> Tile:
        """``-``: the tile of the next scale that has all of this one's columns; the coarsest stays."""
        if self.scale == COARSEST:
            return self
        return Tile(self.scale + 1, self.number // FACTOR)

    def zoomed_in(self, columns: int, *, focus: int | None = None) -> Tile:
        """``+``: one of the four tiles of the scale before that make this one; the finest stays.

        :param columns: of the axis.
        :param focus: the column to keep in view; by default the newest of this tile.
        """
        if not self.scale:
            return self
        newest = min(self.columns.stop, max(columns, 1)) - 1
        kept = newest if focus is None else min(max(focus, self.columns.start), newest)
        return tile_of(kept, self.scale - 1)


def checked(scale: int, number: int) -> Tile:
    """Return the tile that a person has asked for, as in a URL.

    :raises UsageError: if there cannot be such a tile.
    """
    if not 0 <= scale <= COARSEST:
        raise UsageError(f"scale {scale}: give one from 0 to {COARSEST}")
    if number < 0:
        raise UsageError(f"tile {number}: tiles are counted from 0, the oldest")
    return Tile(scale, number)


def tile_of(column: int, scale: int) -> Tile:
    """Return the tile of a scale that has a column."""
    return Tile(scale, column // (columns_of_point(scale) * POINTS))


def newest(columns: int, scale: int = 0) -> Tile:
    """Return the newest tile of an axis."""
    return tile_of(max(columns - 1, 0), scale)


def columns_of_point(scale: int) -> int:
    """Return how many columns a point of a scale covers."""
    return int(FACTOR**scale)


def points_of(columns: int, scale: int) -> int:
    """Return how many points an axis of so many columns has at a scale; the last may cover fewer."""
    return -(-columns // columns_of_point(scale))
