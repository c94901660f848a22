"""Axes: the columns of a testbed, and how far its tiles can be trusted.

A row of ``tile_axes`` states that the tiles of the columns below ``whole`` are correct, and that
``tile_runs`` has exactly the runs in those columns. ``complete`` states that these are all columns. Columns
that are not trusted are read from the results instead, so a reader never waits for tiles and never sees
wrong ones.

A writer locks the axis first, so that concurrent writers are serialized.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Row
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from perftrend.model import revision_of
from perftrend.store.connection import savepoint
from perftrend.store.schema import runs, tile_axes, tile_runs, tiles
from perftrend.store.tiles.blocks import LAYOUT
from perftrend.store.tiles.columns import AxisEntry, TileColumn, columns_of

ENTRY = (runs.c.id, runs.c.started, runs.c.build, runs.c.job, runs.c.versions)
"""Columns of ``runs`` that :func:`entry_of` needs."""


@dataclass(frozen=True, slots=True)
class Axis:
    """The columns of a testbed, in the order of time."""

    testbed: str
    columns: tuple[TileColumn, ...]
    whole: int
    """Number of columns, from the first, that have tiles."""
    axis_id: int
    """-1 if there are no tiles in the current layout."""
    version: tuple[int, ...]
    """Changes with every change of the runs and of the tiles."""


@dataclass(frozen=True, slots=True)
class AxisState:
    """A row of ``tile_axes``."""

    axis_id: int
    whole: int
    complete: bool


def entry_of(row: Row[*tuple[Any, ...]]) -> AxisEntry:
    """Return the entry of a row with the columns :data:`ENTRY`."""
    return AxisEntry(row.started, row.build, row.job, row.id, revision_of(row.versions))


def entries_of(connection: Connection, testbed: str) -> list[AxisEntry]:
    """Return all runs of a testbed in the order of time."""
    query = sa.select(*ENTRY).where(runs.c.testbed == testbed)
    return sorted(entry_of(row) for row in connection.execute(query))


def lock_axis(connection: Connection, testbed: str) -> AxisState:
    """Return the state of an axis, locked until the transaction ends."""
    query = sa.select(tile_axes).where(tile_axes.c.testbed == testbed).with_for_update()
    row = connection.execute(query).first()
    if row is None:
        try:
            with savepoint(connection):
                # Random, so that the new row is not mistaken for a deleted one.
                new = {"whole": 0, "complete": False, "generation": secrets.randbits(30)}
                connection.execute(sa.insert(tile_axes), {"testbed": testbed, "layout": LAYOUT, **new})
        except IntegrityError:
            # Another process was first. Its row is there now.
            pass
        row = connection.execute(query).one()
    if row.layout != LAYOUT:
        return forgotten(connection, AxisState(row.id, row.whole, row.complete))
    return AxisState(row.id, row.whole, row.complete)


def forgotten(connection: Connection, state: AxisState) -> AxisState:
    """Delete the tiles of an axis."""
    connection.execute(sa.delete(tiles).where(tiles.c.axis_id == state.axis_id))
    connection.execute(sa.delete(tile_runs).where(tile_runs.c.axis_id == state.axis_id))
    return update_state(connection, state, whole=0, complete=False)


def distrust(connection: Connection, state: AxisState, whole: int) -> AxisState:
    """Trust the tiles only below a column."""
    stale = (tile_runs.c.axis_id == state.axis_id) & (tile_runs.c.number >= whole)
    connection.execute(sa.delete(tile_runs).where(stale))
    return update_state(connection, state, whole=min(whole, state.whole), complete=False)


def update_state(connection: Connection, state: AxisState, *, whole: int, complete: bool) -> AxisState:
    """Store how far the tiles are correct now."""
    change = sa.update(tile_axes).where(tile_axes.c.id == state.axis_id)
    generation = tile_axes.c.generation + 1
    connection.execute(change.values(layout=LAYOUT, whole=whole, complete=complete, generation=generation))
    return AxisState(state.axis_id, whole, complete)


def version_of(connection: Connection, testbed: str) -> tuple[int, ...]:
    """Return a value that changes with every change of an axis; cheap to query."""
    counted = sa.select(sa.func.count(), sa.func.coalesce(sa.func.max(runs.c.id), 0))
    known = connection.execute(counted.where(runs.c.testbed == testbed)).one()
    query = sa.select(tile_axes.c.id, tile_axes.c.generation, tile_axes.c.layout)
    row = connection.execute(query.where(tile_axes.c.testbed == testbed)).first()
    return (*known, *(row or ()))


def axis_of(connection: Connection, testbed: str) -> Axis:
    """Return the axis of a testbed.

    Regardless of changes to the tables, columns count as whole only as far as their runs are those that the
    tiles were made of.
    """
    version = version_of(connection, testbed)
    columns = tuple(columns_of(entries_of(connection, testbed)))
    query = sa.select(tile_axes).where(tile_axes.c.testbed == testbed)
    row = connection.execute(query).first()
    if row is None or row.layout != LAYOUT:
        return Axis(testbed, columns, 0, -1, version)
    made: dict[int, set[int]] = {}
    of_axis = sa.select(tile_runs.c.number, tile_runs.c.run_id).where(tile_runs.c.axis_id == row.id)
    for number, run_id in connection.execute(of_axis):
        made.setdefault(number, set()).add(run_id)
    right = (number for number, column in enumerate(columns) if made.get(number) != set(column.runs))
    return Axis(testbed, columns, min(row.whole, next(right, len(columns))), row.id, version)
