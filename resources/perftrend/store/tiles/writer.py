"""Creation of tiles: for each run as it is stored, and again for late runs and deleted tiles.

A run that is newer than all others adds a column, or joins that of its commit, in the transaction that
stores it. An older run moves the columns behind it, so their tiles are not trusted any more. They are rebuilt
at once if only a few runs are affected, otherwise by :func:`remake_some`, one tile in each transaction.

Tiles of the coarser scales are built when a tile of scale 0 is full, from all its columns at once. The reader
folds the columns behind the last full tile.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from perftrend.store.schema import runs, tile_runs, tiles
from perftrend.store.tiles import axes, blocks
from perftrend.store.tiles.axes import AxisState
from perftrend.store.tiles.blocks import BLOCK, Sheet
from perftrend.store.tiles.columns import AxisEntry, TileColumn
from perftrend.store.tiles.reader import range_of, values_of
from perftrend.store.tiles.scales import COARSEST, FACTOR, POINTS, columns_of_point, fold, planes_of

AT_ONCE = 8
"""Maximum number of runs without a column that the transaction of a late run adds to the tiles."""


def follow(connection: Connection, testbed: str, run_id: int) -> None:
    """Add a run that has just been stored to the tiles, or trust the tiles only before it."""
    state = axes.lock_axis(connection, testbed)
    waiting = _runs_without_column(connection, testbed, state)
    if waiting < 1:
        # Runs were deleted from the database, and their ids may be in use again.
        state = axes.forgotten(connection, state)
        waiting = _runs_without_column(connection, testbed, state)
    if waiting > AT_ONCE and not state.whole:
        return
    entry = axes.entry_of(connection.execute(sa.select(*axes.ENTRY).where(runs.c.id == run_id)).one())
    later, joined = _place(connection, state, entry)
    if waiting == 1 and later is None:
        _add_column(connection, state, entry, state.whole if joined is None else joined)
        return
    first = min(each for each in (later, joined, state.whole) if each is not None)
    state = axes.distrust(connection, state, first)
    if _runs_without_column(connection, testbed, state) <= AT_ONCE:
        remake_all(connection, testbed, state)


def refresh(connection: Connection, testbed: str, run_id: int) -> None:
    """Rebuild the column of a run after some of its results became invalid or valid."""
    state = axes.lock_axis(connection, testbed)
    number = connection.execute(sa.select(tile_runs.c.number).where(tile_runs.c.run_id == run_id)).scalar()
    if number is not None and number < state.whole:
        column = _column(connection, state, number)
        _make(connection, state, [column], number, whole=state.whole, stale=False, emptied=True)
    # In any case, so that everything derived from the values is rebuilt.
    axes.update_state(connection, state, whole=state.whole, complete=state.complete)


def catch_up(connection: Connection, testbed: str) -> None:
    """Add all runs of a testbed that have no column to the tiles, in this transaction."""
    state = remake_some(connection, testbed, axes.lock_axis(connection, testbed))
    remake_all(connection, testbed, state)


def remake_all(connection: Connection, testbed: str, state: AxisState) -> None:
    """Rebuild all columns that are not trusted, in this transaction."""
    while not state.complete:
        state = remake_some(connection, testbed, state)


def remake_some(connection: Connection, testbed: str, state: AxisState) -> AxisState:
    """Rebuild columns that are not trusted, up to the end of their tile; do nothing if all are trusted.

    :param state: from :func:`axes.lock_axis`.
    """
    axis = axes.axis_of(connection, testbed)
    if state.complete and state.whole == axis.whole == len(axis.columns):
        return state
    if axis.whole < state.whole:
        state = axes.distrust(connection, state, axis.whole)
    start = state.whole
    stop = min((start // POINTS + 1) * POINTS, len(axis.columns))
    columns = axis.columns[start:stop]
    _make(connection, state, columns, start, whole=stop, stale=True)
    _enter(connection, state, columns, start)
    complete = stop == len(axis.columns)
    if complete:
        _clear_behind(connection, state, stop)
    return axes.update_state(connection, state, whole=stop, complete=complete)


def _add_column(connection: Connection, state: AxisState, entry: AxisEntry, number: int) -> None:
    """Add the newest run to its own new column or to an existing one; all other runs have theirs."""
    alone = TileColumn(entry.revision, entry.started, (entry.run_id,))
    _enter(connection, state, [alone], number)
    whole = max(state.whole, number + 1)
    column = alone if whole > state.whole else _column(connection, state, number)
    _make(connection, state, [column], number, whole=whole, stale=False)
    axes.update_state(connection, state, whole=whole, complete=True)


def _runs_without_column(connection: Connection, testbed: str, state: AxisState) -> int:
    query = sa.select(
        sa.select(sa.func.count()).where(runs.c.testbed == testbed).scalar_subquery(),
        sa.select(sa.func.count()).where(tile_runs.c.axis_id == state.axis_id).scalar_subquery(),
    )
    stored, placed = connection.execute(query).one()
    return int(stored - placed)


def _place(connection: Connection, state: AxisState, entry: AxisEntry) -> tuple[int | None, int | None]:
    """Return the first column with a later run, and the column that the run joins; None if there is none."""
    query = sa.select(tile_runs.c.number, *axes.ENTRY).join(runs, runs.c.id == tile_runs.c.run_id)
    query = query.where(tile_runs.c.axis_id == state.axis_id)
    not_before = connection.execute(query.where(runs.c.started >= entry.started))
    later = [row.number for row in not_before if axes.entry_of(row) > entry]
    joins = None
    if entry.revision:
        same = connection.execute(query.where(tile_runs.c.revision == entry.revision)).all()
        repeat = sum(row.job == entry.job and axes.entry_of(row) < entry for row in same)
        numbers = sorted({row.number for row in same})
        joins = numbers[repeat] if repeat < len(numbers) else None
    return min(later, default=None), joins


def _column(connection: Connection, state: AxisState, number: int) -> TileColumn:
    query = sa.select(*axes.ENTRY).join(tile_runs, runs.c.id == tile_runs.c.run_id)
    rows = connection.execute(query.where(tile_runs.c.axis_id == state.axis_id, tile_runs.c.number == number))
    entries = sorted(axes.entry_of(row) for row in rows)
    return TileColumn(entries[0].revision, entries[0].started, tuple(entry.run_id for entry in entries))


def _enter(connection: Connection, state: AxisState, columns: Sequence[TileColumn], start: int) -> None:
    placed = [
        {"run_id": run, "axis_id": state.axis_id, "number": number, "revision": column.revision}
        for number, column in enumerate(columns, start)
        for run in column.runs
    ]
    if placed:
        connection.execute(sa.insert(tile_runs), placed)


def _make(
    connection: Connection,
    state: AxisState,
    columns: Sequence[TileColumn],
    start: int,
    *,
    whole: int,
    stale: bool,
    emptied: bool = False,
) -> None:
    """Write columns of one tile.

    :param start: the number of the first of them.
    :param whole: the number of columns that have tiles afterwards.
    :param stale: whether the tile may have wrong values from there on.
    :param emptied: whether the tile may have values of these columns that are invalid now.
    """
    number, first = divmod(start, POINTS)
    sheet = Sheet(state.axis_id, 0, number)
    known = blocks.blocks_of(connection, sheet)
    bounds = range_of(connection, columns)
    rewritten = stale or emptied
    touched = set(range(bounds[0] // BLOCK, bounds[1] // BLOCK + 1)) if bounds else set()
    for group in blocks.groups(sorted(touched | known if stale else touched)):
        ids = (np.array(group)[:, np.newaxis] * BLOCK + np.arange(BLOCK)).ravel()
        lines = values_of(connection, columns, ids).reshape(len(columns), len(group), BLOCK)
        filled: list[bool] = np.any(~np.isnan(lines), axis=(0, 2)).tolist()
        changed = [
            place for place, block in enumerate(group) if filled[place] or (rewritten and block in known)
        ]
        had = dict(blocks.read(connection, sheet, [group[place] for place in changed]))
        arrays = {
            group[place]: blocks.insert_points(had.get(group[place]), lines[:, place], first, clip=stale)
            for place in changed
        }
        blocks.write(connection, sheet, arrays, known)
    if columns and whole >= (number + 1) * POINTS:
        _fold(connection, state.axis_id, number, whole)


def _fold(connection: Connection, axis_id: int, number: int, whole: int) -> None:
    """Write the points of the coarser scales that cover the columns of a full tile."""
    full = whole // POINTS * POINTS
    for scale in range(1, COARSEST + 1):
        size = columns_of_point(scale)
        first = number * POINTS // size
        last = min(-(-(number + 1) * POINTS // size), full // size)
        if first < last:
            _fold_points(connection, axis_id, scale, first, last)


def _fold_points(connection: Connection, axis_id: int, scale: int, first: int, last: int) -> None:
    # All are in one tile, and so are the points that they cover: a tile is a power of four times two.
    finer = Sheet(axis_id, scale - 1, first * FACTOR // POINTS)
    coarse = Sheet(axis_id, scale, first // POINTS)
    known = blocks.blocks_of(connection, coarse)
    begin = first * FACTOR % POINTS
    end = begin + (last - first) * FACTOR
    for group in blocks.groups(sorted(known | blocks.blocks_of(connection, finer))):
        source = dict(blocks.read(connection, finer, group))
        had = dict(blocks.read(connection, coarse, group))
        arrays = {}
        for block in group:
            lines = np.full((end - begin, *finer.line), np.nan)
            some = source.get(block, lines[:0])[begin:end]
            lines[: len(some)] = some
            points = fold(lines if finer.scale else planes_of(lines))
            arrays[block] = blocks.insert_points(had.get(block), points, first % POINTS, clip=False)
        blocks.write(connection, coarse, arrays, known)


def _clear_behind(connection: Connection, state: AxisState, columns: int) -> None:
    """Delete the tiles of columns that no longer exist."""
    behind = (tiles.c.scale == 0) & (tiles.c.number >= -(-columns // POINTS))
    connection.execute(sa.delete(tiles).where(tiles.c.axis_id == state.axis_id, behind))
