"""Scales: the tiles of each, the navigation between them, and the points, which show the envelope in plots.

A tile has 128 points. At scale 0 a point is one column: one commit, see
:mod:`perftrend.store.tiles.columns`. At each further scale, up to 5, a point covers four points of the
scale before, so 4^scale columns. Tiles and points are counted from the beginning of time, and only the
newest tile of a scale may be short.

A point of scale 0 is the value of a trace in a column: the value of its run, or the average of the values
of its runs. A point of a coarser scale has the average, the least, the greatest and the number of the
values that it covers. All are float64; NaN where there is no value at all.

Source: "Skia Perf: Design", sections Architecture and Navigating. It states the factor 4, and also that the
number of the tile is divided by two when zooming out. Four keeps the columns in view, so it is used here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from perftrend.errors import UsageError
from perftrend.model import Samples

POINTS = 128
"""Points of a tile."""
FACTOR = 4
"""Points of a scale that one point of the next scale covers."""
COARSEST = 5
PLANES = 4
"""Average, least, greatest, number."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile of an axis, and the tiles that can be reached from it."""

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
        """Return whether an axis with this number of columns has the tile; an empty axis has the first."""
        return self == Tile(0, 0) or self.columns.start < columns

    def left(self) -> Tile:
        """Return the previous tile in time (``<``); for the first one, itself."""
        return replace(self, number=max(self.number - 1, 0))

    def right(self, columns: int) -> Tile:
        """Return the next tile in time (``>``); for the newest one of an axis of this length, itself."""
        following = replace(self, number=self.number + 1)
        return following if following.exists(columns) else self

    def zoom_out(self) -> Tile:
        """Return the tile of the next scale that covers this one (``-``); for the coarsest, itself."""
        if self.scale == COARSEST:
            return self
        return Tile(self.scale + 1, self.number // FACTOR)

    def zoom_in(self, columns: int, *, focus: int | None = None) -> Tile:
        """Return one of the four finer tiles that this one covers (``+``); the finest returns itself.

        :param columns: of the axis.
        :param focus: the column to keep in view; by default the newest of this tile.
        """
        if not self.scale:
            return self
        newest = min(self.columns.stop, max(columns, 1)) - 1
        column = newest if focus is None else min(max(focus, self.columns.start), newest)
        return tile_of(column, self.scale - 1)


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Points of n traces, each array of the shape (n, points)."""

    mean: Samples
    least: Samples
    greatest: Samples
    count: NDArray[np.int64]
    """Columns with a value; 0 where the others are NaN."""

    @classmethod
    def of(cls, planes: Samples) -> Points:
        """Return the points of an array of :func:`fold`.

        :param planes: shape (points, 4, n).
        """
        mean, least, greatest, number = (np.ascontiguousarray(planes[:, plane].T) for plane in range(PLANES))
        return cls(mean, least, greatest, np.nan_to_num(number).astype(np.int64))


def validate_tile(scale: int, number: int) -> Tile:
    """Return the requested tile, such as that of a URL.

    :raises UsageError: if no axis can have this tile.
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
    """Return the number of columns that a point of a scale covers."""
    return int(FACTOR**scale)


def points_of(columns: int, scale: int) -> int:
    """Return the number of points of an axis at a scale; the last point may cover fewer columns."""
    return -(-columns // columns_of_point(scale))


def coarsen(values: Samples, scale: int) -> Points:
    """Return the points of a scale over values that no tile has, such as those of several testbeds.

    :param values: shape (n, columns), NaN for holes.
    """
    planes = planes_of(values.T)
    for _ in range(scale):
        planes = fold(planes)
    return Points.of(planes)


def planes_of(values: Samples) -> Samples:
    """Return values of scale 0 in the form of coarser points.

    :param values: shape (columns, n), NaN for holes.
    :returns: shape (columns, 4, n).
    """
    number = np.where(np.isnan(values), np.nan, 1.0)
    return np.stack((values, values, values, number), axis=1)


def fold(planes: Samples) -> Samples:
    """Return the points of the next scale.

    :param planes: shape (points, 4, n), beginning with the first point of a coarse one; the last may
        have fewer than four.
    :returns: shape (⌈points / 4⌉, 4, n).
    """
    points, _, traces = planes.shape
    coarse = -(-points // FACTOR)
    if points < coarse * FACTOR:
        filling = np.full((coarse * FACTOR - points, PLANES, traces), np.nan)
        planes = np.concatenate((planes, filling))
    four = planes.reshape(coarse, FACTOR, PLANES, traces)
    mean, number = four[:, :, 0], np.nan_to_num(four[:, :, 3])
    least = np.fmin.reduce(four[:, :, 1], axis=1)
    greatest = np.fmax.reduce(four[:, :, 2], axis=1)
    total = number.sum(axis=1)
    empty = total == 0
    total[empty] = np.nan
    # Relative to the least, so that equal values have exactly their average.
    with np.errstate(over="ignore", invalid="ignore"):
        above = np.nan_to_num(mean - least[:, np.newaxis], nan=0.0, posinf=np.finfo(float).max)
        average = least + (above * (number / total[:, np.newaxis])).sum(axis=1)
    average = np.clip(average, least, greatest)
    return np.stack((average, least, greatest, total), axis=1)
