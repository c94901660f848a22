"""Blocks: the layout of the arrays of traces in the database.

A row of ``tiles`` holds one tile of 64 traces with neighbouring ids as float64, little-endian: all points of
the first trace, all of the second, … At the scales above 0 a point is four numbers, see
:mod:`perftrend.store.tiles.scales`. A row ends with the last point at which one of its traces has a value; a
block without values has no row.

With a row for each trace, a night would change 100,000 of them for 8 bytes each. In blocks it writes some
thousand rows of at most 64 kB. For a reader of few traces, the database extracts them from the rows.

In memory points come first and traces last: ``(points, 64)``, or ``(points, 4, 64)``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from perftrend.model import Samples
from perftrend.store.schema import tiles, traces
from perftrend.store.tiles.scales import PLANES

LAYOUT = 1
"""Version of the layout of rows; tiles of another version are rebuilt."""
BLOCK = 64
"""Traces in a row."""
_MOST = 256
"""Blocks or traces that are read or written at once: 16 MB of a full tile."""

_STORED = np.dtype("<f8")


@dataclass(frozen=True, slots=True)
class Sheet:
    """One tile of all traces of an axis."""

    axis_id: int
    scale: int
    number: int

    @property
    def where(self) -> sa.ColumnElement[bool]:
        """The rows of the sheet."""
        return (
            (tiles.c.axis_id == self.axis_id)
            & (tiles.c.scale == self.scale)
            & (tiles.c.number == self.number)
        )

    @property
    def line(self) -> tuple[int, ...]:
        """The shape of one point of a block."""
        return (PLANES, BLOCK) if self.scale else (BLOCK,)


Rows = Mapping[int, Samples]
"""Arrays by block, each of the shape (points, …, 64)."""


def blocks_of(connection: Connection, sheet: Sheet) -> set[int]:
    """Return the blocks that have a row."""
    return set(connection.execute(sa.select(tiles.c.block).where(sheet.where)).scalars())


def read(connection: Connection, sheet: Sheet, blocks: Sequence[int]) -> Iterator[tuple[int, Samples]]:
    """Yield the arrays of those blocks that have a row."""
    for some in groups(blocks):
        query = sa.select(tiles.c.block, tiles.c.data).where(sheet.where, tiles.c.block.in_(some))
        for block, data in connection.execute(query):
            yield block, _unpack(data, sheet, BLOCK)


def read_few(connection: Connection, sheet: Sheet, ids: Sequence[int]) -> Iterator[tuple[int, Samples]]:
    """Yield the arrays of single traces, of the shape (points, …), as far as their blocks have rows."""
    size = sa.func.length(tiles.c.data, type_=sa.Integer) // BLOCK
    cut = sa.func.substr(tiles.c.data, 1 + (traces.c.id % BLOCK) * size, size, type_=sa.LargeBinary)
    query = sa.select(traces.c.id, cut).join_from(traces, tiles, tiles.c.block == traces.c.id // BLOCK)
    for some in groups(ids):
        for trace, data in connection.execute(query.where(sheet.where, traces.c.id.in_(some))):
            yield trace, _unpack(data, sheet, 1)[..., 0]


def write(connection: Connection, sheet: Sheet, arrays: Rows, known: set[int]) -> None:
    """Write whole rows.

    :param known: the blocks that have a row already.
    """
    trimmed = {block: _trim(array) for block, array in arrays.items()}
    gone = [block for block, array in trimmed.items() if not len(array) and block in known]
    if gone:
        connection.execute(sa.delete(tiles).where(sheet.where, tiles.c.block.in_(gone)))
    place = {"axis_id": sheet.axis_id, "scale": sheet.scale, "number": sheet.number}
    packed = [(block, _pack(array)) for block, array in trimmed.items() if len(array)]
    new = [{**place, "block": block, "data": data} for block, data in packed if block not in known]
    if new:
        connection.execute(sa.insert(tiles), new)
    changed = [{"of_block": block, "new_data": data} for block, data in packed if block in known]
    if changed:
        change = sa.update(tiles).where(sheet.where, tiles.c.block == sa.bindparam("of_block"))
        connection.execute(change.values(data=sa.bindparam("new_data")), changed)


def groups(blocks: Sequence[int]) -> Iterator[Sequence[int]]:
    """Divide blocks or ids into groups that fit into memory and into one query."""
    for start in range(0, len(blocks), _MOST):
        yield blocks[start : start + _MOST]


def insert_points(array: Samples | None, lines: Samples, start: int, *, clip: bool) -> Samples:
    """Return the array of a block with points put into it.

    :param array: the stored array of the block; None if there is none.
    :param lines: the points from ``start`` on.
    :param clip: whether the stored points from ``start`` on are wrong.
    """
    had = 0 if array is None else min(len(array), start) if clip else len(array)
    result = np.full((max(had, start + len(lines)), *lines.shape[1:]), np.nan)
    if array is not None:
        result[:had] = array[:had]
    result[start : start + len(lines)] = lines
    return result


def _pack(array: Samples) -> bytes:
    return np.moveaxis(array, -1, 0).astype(_STORED).tobytes()


def _unpack(data: bytes, sheet: Sheet, number: int) -> Samples:
    planes = (PLANES,) if sheet.scale else ()
    array: Samples = np.frombuffer(data, dtype=_STORED).reshape(number, -1, *planes)
    return array.transpose(*range(1, array.ndim), 0)


def _trim(array: Samples) -> Samples:
    filled: NDArray[np.intp] = np.flatnonzero(~np.isnan(array).all(axis=tuple(range(1, array.ndim))))
    return array[: filled[-1] + 1] if len(filled) else array[:0]
