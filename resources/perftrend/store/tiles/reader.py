"""Reading of points: from the tiles if these are trusted, otherwise from the results."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from sqlalchemy.engine import Connection

from perftrend.model import Samples
from perftrend.store.tiles import blocks
from perftrend.store.tiles.axes import Axis
from perftrend.store.tiles.blocks import BLOCK, Sheet
from perftrend.store.tiles.points import PLANES, fold, planes_of
from perftrend.store.tiles.scales import FACTOR, POINTS, columns_of_point, points_of
from perftrend.store.tiles.values import Ids, values_of

_SCATTERED = {"sqlite": 2, "postgresql": 8}
"""Traces of a block, on average, up to which they are read one by one: PostgreSQL sends bytes as text."""


def values_at(connection: Connection, axis: Axis, ids: Ids, columns: range) -> Samples:
    """Return the values of traces in consecutive columns.

    :param ids: ascending, without duplicates.
    :returns: shape (columns, n).
    """
    values = np.full((len(columns), len(ids)), np.nan)
    trusted = range(columns.start, min(columns.stop, axis.whole))
    _read(connection, axis, ids, trusted, into=values, scale=0)
    rest = range(max(columns.start, axis.whole), columns.stop)
    if rest:
        values[-len(rest) :] = values_of(connection, axis.columns[rest.start : rest.stop], ids)
    return values


def planes_at(connection: Connection, axis: Axis, ids: Ids, scale: int, points: range) -> Samples:
    """Return consecutive points of traces at a scale.

    :param ids: ascending, without duplicates.
    :returns: shape (points, 4, n).
    """
    if not scale:
        return planes_of(values_at(connection, axis, ids, points))
    planes = np.full((len(points), PLANES, len(ids)), np.nan)
    made = axis.whole // POINTS * POINTS // columns_of_point(scale)
    trusted = range(points.start, min(points.stop, made))
    _read(connection, axis, ids, trusted, into=planes, scale=scale)
    rest = range(max(points.start, made), points.stop)
    if rest:
        stop = min(rest.stop * FACTOR, points_of(len(axis.columns), scale - 1))
        finer = planes_at(connection, axis, ids, scale - 1, range(rest.start * FACTOR, stop))
        planes[-len(rest) :] = fold(finer)
    return planes


def _read(connection: Connection, axis: Axis, ids: Ids, points: range, *, into: Samples, scale: int) -> None:
    """Read points of the tiles into the first lines of an array."""
    if not points or not len(ids):
        return
    for number in range(points.start // POINTS, (points.stop - 1) // POINTS + 1):
        first = max(points.start, number * POINTS)
        within = slice(first - number * POINTS, points.stop - number * POINTS)
        for places, array in _arrays(connection, Sheet(axis.axis_id, scale, number), ids):
            lines = array[within]
            place = first - points.start
            into[place : place + len(lines), ..., places] = lines


def _arrays(connection: Connection, sheet: Sheet, ids: Ids) -> Iterator[tuple[int | slice, Samples]]:
    """Yield the arrays of one trace or of several, with their places among the ids."""
    numbers, starts = np.unique(ids // BLOCK, return_index=True)
    if len(ids) <= _SCATTERED[connection.dialect.name] * len(numbers):
        place_of = {trace: place for place, trace in enumerate(ids.tolist())}
        for trace, array in blocks.read_few(connection, sheet, ids.tolist()):
            yield place_of[trace], array
        return
    bounds = dict(zip(numbers.tolist(), pairwise([*starts.tolist(), len(ids)]), strict=True))
    within = ids % BLOCK
    for block, array in blocks.read(connection, sheet, list(bounds)):
        start, stop = bounds[block]
        yield slice(start, stop), array if stop - start == BLOCK else array[..., within[start:stop]]
