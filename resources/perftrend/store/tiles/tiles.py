"""The tiles of a store, as the rest of perftrend sees them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection, Engine

from perftrend.model import Result, Run, Samples
from perftrend.store.connection import read_transaction, write_transaction
from perftrend.store.schema import runs, tile_axes, tile_runs, tiles
from perftrend.store.tiles import axes, reader
from perftrend.store.tiles import writer as making
from perftrend.store.tiles.axes import Axis
from perftrend.store.tiles.columns import TileColumn, common
from perftrend.store.tiles.reader import StoredTrace, planes_at, values_at
from perftrend.store.tiles.scales import Points, Tile, points_of


class Tiles:
    """Values of many traces over the commits of a testbed; safe for several processes at once.

    ::

        axis = store.tiles.axis("2n-clx")
        last = range(max(len(axis.columns) - 128, 0), len(axis.columns))
        values = store.tiles.values(axis, [trace.trace_id for trace in store.tiles.traces()], last)
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._axes: dict[str, Axis] = {}

    def testbeds(self) -> list[str]:
        """Return the testbeds that have runs."""
        with self._read_transaction() as connection:
            query = sa.select(runs.c.testbed).distinct().order_by(runs.c.testbed)
            return list(connection.execute(query).scalars())

    def has_simulated(self, testbed: str) -> bool:
        """Return whether a testbed has runs that sent no packet."""
        query = sa.select(runs.c.id).where(runs.c.testbed == testbed, runs.c.simulated.is_(True)).limit(1)
        with self._read_transaction() as connection:
            return connection.execute(query).first() is not None

    def axis(self, testbed: str) -> Axis:
        """Return the columns of a testbed; cached until its runs or its tiles change."""
        with self._read_transaction() as connection:
            return self._axis(connection, testbed)

    def traces(self, *, after: int = 0) -> list[StoredTrace]:
        """Return the traces with ids greater than ``after``, sorted by id."""
        with self._read_transaction() as connection:
            return reader.traces_after(connection, after)

    def values(self, axis: Axis, ids: Sequence[int] | NDArray[np.int64], columns: range) -> Samples:
        """Return the values of traces in consecutive columns.

        :param axis: from :meth:`axis`; if it has changed since, its columns as they were then.
        :param ids: of traces; unknown ones have no values.
        :param columns: with step 1, within the axis.
        :returns: shape (n, columns); NaN where there is no value that may enter a trend.
        """
        ascending, places = _sort_unique(ids)
        with self._read_transaction() as connection:
            values = values_at(connection, self._revalidate(connection, axis), ascending, columns)
        return values[:, places].T

    def side_by_side(
        self, axes: Sequence[Axis], ids: Sequence[Sequence[int]], columns: range
    ) -> list[Samples]:
        """Return the values of traces of several testbeds over their common columns.

        :param ids: of the traces of each axis.
        :param columns: of those that :func:`perftrend.store.tiles.common` returns, with step 1.
        :returns: for each axis an array of the shape (n, columns), NaN where the testbed has no such column.
        """
        return [
            self.values_at(axis, wanted, places[columns.start : columns.stop])
            for axis, wanted, places in zip(axes, ids, common([axis.columns for axis in axes]), strict=True)
        ]

    def values_at(
        self, axis: Axis, ids: Sequence[int] | NDArray[np.int64], places: NDArray[np.intp]
    ) -> Samples:
        """Return the values of traces in columns that need not be adjacent.

        :param places: of the columns in the axis, shape (columns,); -1 where it has none.
        :returns: shape (n, columns), NaN where there is no column or no value.
        """
        there = np.flatnonzero(places >= 0)
        values = np.full((len(ids), len(places)), np.nan)
        if len(there):
            first, last = int(places[there].min()), int(places[there].max())
            read = self.values(axis, ids, range(first, last + 1))
            values[:, there] = read[:, places[there] - first]
        return values

    def points(self, axis: Axis, ids: Sequence[int] | NDArray[np.int64], scale: int, points: range) -> Points:
        """Return consecutive points of traces at a scale; arguments and shapes as for :meth:`values`."""
        ascending, places = _sort_unique(ids)
        with self._read_transaction() as connection:
            planes = planes_at(connection, self._revalidate(connection, axis), ascending, scale, points)
        return Points.of(planes[:, :, places])

    def tile(self, axis: Axis, ids: Sequence[int] | NDArray[np.int64], tile: Tile) -> Points:
        """Return a tile, which has 128 points; the newest one may have fewer."""
        last = points_of(len(axis.columns), tile.scale)
        return self.points(axis, ids, tile.scale, range(tile.points.start, min(tile.points.stop, last)))

    def results(self, trace_id: int, column: TileColumn) -> list[tuple[Run, Result]]:
        """Return the runs behind a point of scale 0, each with its result, all replicates and details."""
        with self._read_transaction() as connection:
            return reader.results_in(connection, trace_id, column)

    def runs(self, column: TileColumn) -> list[Run]:
        """Return the runs of a point of scale 0, in the order of time."""
        with self._read_transaction() as connection:
            return reader.runs_in(connection, column)

    def samples(
        self, ids: Sequence[int], columns: Sequence[TileColumn]
    ) -> dict[tuple[int, int], tuple[float, ...]]:
        """Return the replicates behind points of scale 0, of usable results only.

        :param ids: of few traces: each result is read.
        :param columns: of few columns, such as those of a tile.
        :returns: by the id of the trace and the position of the column; omits points without replicates.
        """
        with self._read_transaction() as connection:
            return reader.samples_in(connection, ids, columns)

    def remake(self, progress: Callable[[str, int, int], None] | None = None) -> None:
        """Build all tiles that are missing or not trusted; correct tiles are not changed.

        Each tile is a transaction: a kill loses at most one, and the next call continues from there.

        :param progress: called with the testbed, the number of columns that have tiles, and of all columns.
        """
        for testbed in self.testbeds():
            while True:
                with write_transaction(self._engine) as connection:
                    state = axes.lock_axis(connection, testbed)
                    state = making.remake_some(connection, testbed, state)
                if progress:
                    progress(testbed, state.whole, len(self.axis(testbed).columns))
                if state.complete:
                    break
        with write_transaction(self._engine) as connection:
            if connection.dialect.name == "postgresql":
                # Otherwise it would plan the first queries for the few rows that it last counted.
                connection.execute(sa.text("ANALYZE tiles"))

    def distrust(self, testbed: str, column: int) -> int:
        """Mark tiles as not trusted from a column on, because its results have changed.

        :returns: the number of columns that are still trusted.
        """
        with write_transaction(self._engine) as connection:
            return axes.distrust(connection, axes.lock_axis(connection, testbed), column).whole

    def forget(self) -> None:
        """Delete all tiles; create their tables if these are missing."""
        with write_transaction(self._engine) as connection:
            for table in (tile_axes, tile_runs, tiles):
                table.create(connection, checkfirst=True)
            for table in (tiles, tile_runs, tile_axes):
                connection.execute(sa.delete(table))

    @contextmanager
    def _read_transaction(self) -> Generator[Connection, None, None]:
        with read_transaction(self._engine) as connection:
            if connection.dialect.name == "postgresql":
                # Otherwise each query would see the state of its own moment.
                connection.execute(sa.text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
            yield connection

    def _axis(self, connection: Connection, testbed: str) -> Axis:
        cached = self._axes.get(testbed)
        if cached is None or cached.version != axes.version_of(connection, testbed):
            cached = self._axes[testbed] = axes.axis_of(connection, testbed)
        return cached

    def _revalidate(self, connection: Connection, axis: Axis) -> Axis:
        """Return an axis whose tiles are correct in this transaction; its columns are not changed."""
        now = self._axis(connection, axis.testbed)
        if now is axis:
            return axis
        same = next(
            (number for number, (one, other) in enumerate(zip(axis.columns, now.columns, strict=False))
             if one.runs != other.runs),
            min(len(axis.columns), len(now.columns)),
        )  # fmt: skip
        return replace(now, columns=axis.columns, whole=min(same, now.whole))


def _sort_unique(
    ids: Sequence[int] | NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.intp] | slice]:
    """Return ids in ascending order without duplicates, and the positions of the given ids in them."""
    given = np.asarray(ids, dtype=np.int64)
    if (given[1:] > given[:-1]).all():
        return given, slice(None)
    ascending, places = np.unique(given, return_inverse=True)
    return ascending, places
