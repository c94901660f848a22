"""The visible part of time: by default 128 points of a testbed's commits, and the traces there.

A tile is selected by its number. Without a number, the newest points are shown, even if the newest tile
is shorter; otherwise only a few points would be visible on the day after a tile was filled.

Values of other testbeds are aligned with the columns of the testbed whose commits are the points: a column
has the values that the other testbed measured of the same commit. If a commit was measured several times, the
first measurement there is aligned with the first one here, and so on. Commits that the other testbed did not
measure are gaps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from perftrend import errors
from perftrend.analysis.formula import DEFAULT_LIMITS, Query, StoredId, Term, parse_stored_ids
from perftrend.analysis.query import TraceSource
from perftrend.dashboard.catalog import Traces
from perftrend.dashboard.context import AppContext, usual_testbed
from perftrend.dashboard.explore.state import Downsample, ExploreState
from perftrend.errors import FormulaError, UsageError
from perftrend.model import Samples, TraceKey
from perftrend.store import Store
from perftrend.store.tiles import (
    POINTS,
    Axis,
    Points,
    StoredTrace,
    Tile,
    TileColumn,
    coarsen,
    columns_of_point,
    common,
    newest,
    points_of,
    tile_of,
    validate_tile,
)

TESTBED = "testbed"
"""The parameter by which queries are restricted unless they have a condition on it."""
Places = NDArray[np.intp]
"""Indices of traces in the table, shape (n,)."""
MOST_SINGLE = 20_000_000
"""Maximum number of values, traces times columns, that are read for coarse points that no tile has."""
_AT_ONCE = 2_000_000
"""Number of values that are read together."""


@dataclass(frozen=True, eq=False)
class Window:
    """A tile, and access to the values of its points."""

    store: Store
    traces: Traces
    axis: Axis
    tile: Tile
    follows: bool = False
    """Whether it shows the newest points rather than those up to the end of the tile."""
    downsample: Downsample = Downsample.MEAN
    size: int = POINTS
    """Maximum number of points that are shown; more than a tile has end with those of the tile."""

    @cached_property
    def points(self) -> range:
        """The points that are shown, as indices of the axis."""
        last = points_of(len(self.axis.columns), self.tile.scale)
        stop = last if self.follows else self.tile.points.stop
        return range(min(max(stop - self.size, 0), last), min(stop, last))

    @cached_property
    def columns(self) -> range:
        """The columns that these points cover."""
        size, last = columns_of_point(self.tile.scale), len(self.axis.columns)
        return range(self.points.start * size, min(self.points.stop * size, last))

    @property
    def is_single(self) -> bool:
        """Whether a point is the value of one commit, and not an average."""
        return not self.tile.scale or self.downsample is Downsample.NTH

    @cached_property
    def source(self) -> WindowSource:
        """Source of the rows of formulas."""
        return WindowSource(self)

    def column(self, number: int | None) -> TileColumn | None:
        """Return the column of the axis with this number, if it exists."""
        return None if number is None or number >= len(self.axis.columns) else self.axis.columns[number]

    def columns_of(self, point: int) -> range:
        """Return the columns that a point of the tile covers.

        :param point: its index in the tile, from 0.
        """
        size = columns_of_point(self.tile.scale)
        first = (self.points.start + point) * size
        return range(first, min(first + size, len(self.axis.columns)))

    def point_of(self, column: int) -> int | None:
        """Return the index of the point that covers a column; None: it is not in this tile."""
        point = column // columns_of_point(self.tile.scale) - self.points.start
        return point if 0 <= point < len(self.points) else None

    def here(self, query: Query) -> Query:
        """Return a query restricted to this testbed, unless it has a condition on testbeds."""
        if TESTBED in query.by_key or TESTBED not in self.traces.table.parameters:
            return query
        return Query((*query.terms, Term(TESTBED, self.axis.testbed)))

    def select(self, query: Query) -> Places:
        """Return the places of the traces that match a query.

        :raises FormulaError: if a regular expression is not valid, or there are too many.
        """
        return self.traces.table.rows(self.here(query))

    def planes(self, places: Places) -> Points:
        """Return the points of traces, with averages; errors as in :meth:`values`."""
        if self._are_here(places):
            return self.store.tiles.points(self.axis, self.traces.ids[places], self.tile.scale, self.points)
        parts = [coarsen(values, self.tile.scale) for values in self._in_parts(places)]
        return Points(
            np.concatenate([part.mean for part in parts]),
            np.concatenate([part.least for part in parts]),
            np.concatenate([part.greatest for part in parts]),
            np.concatenate([part.count for part in parts]),
        )

    def values(self, places: Places) -> Samples:
        """Return the values of traces, shape (n, points).

        :raises FormulaError: if too many would have to be read commit by commit: tiles contain neither every
            n-th commit nor points of another testbed at these commits.
        """
        if not self.tile.scale:
            return self.read(places, self.columns)
        if not self.is_single:
            return self.planes(places).mean
        newest = [self.columns_of(point)[-1] - self.columns.start for point in range(len(self.points))]
        parts = (values[:, newest] for values in self._in_parts(places))
        return np.concatenate([np.empty((0, len(newest))), *parts])

    def read(self, places: Places, columns: range) -> Samples:
        """Return the values of traces in consecutive columns, those of other testbeds at the same commits.

        :returns: shape (n, columns), NaN for gaps.
        """
        ids = self.traces.ids[places]
        if self._are_here(places):
            return self.store.tiles.values(self.axis, ids, columns)
        values = np.full((len(ids), len(columns)), np.nan)
        for testbed, numbers in self.traces.table.by_value(TESTBED, places).items():
            if testbed is None or testbed == self.axis.testbed:
                values[numbers] = self.store.tiles.values(self.axis, ids[numbers], columns)
            else:
                values[numbers] = self.align_testbed(testbed).values(self.store, ids[numbers], columns)
        return values

    def _in_parts(self, places: Places) -> Iterator[Samples]:
        """Yield the values of traces in all columns, a few traces at a time to limit the memory."""
        if len(places) * len(self.columns) > MOST_SINGLE:
            reason = f"{len(places)} traces are too many to be read commit by commit at this scale; zoom in"
            raise FormulaError("query", 0, reason)
        step = max(_AT_ONCE // max(len(self.columns), 1), 1)
        for first in range(0, len(places), step):
            yield self.read(places[first : first + step], self.columns)

    def column_at(self, testbed: str, number: int) -> TileColumn | None:
        """Return the column of a testbed for a column of the axis; None: it did not measure that commit."""
        return (
            self.column(number)
            if testbed == self.axis.testbed
            else self.align_testbed(testbed).column(number)
        )

    def testbed_of(self, trace: StoredTrace) -> str:
        """Return the testbed that measured a trace; if the trace names none, that of the axis."""
        return next((value for name, value in trace.key.parameters if name == TESTBED), self.axis.testbed)

    def align_testbed(self, testbed: str) -> AlignedTestbeds:
        """Return the columns of another testbed."""
        if testbed not in self._others:
            self._others[testbed] = AlignedTestbeds.from_axes(self.axis, self.store.tiles.axis(testbed))
        return self._others[testbed]

    @cached_property
    def _others(self) -> dict[str, AlignedTestbeds]:
        return {}

    def _are_here(self, places: Places) -> bool:
        return set(self.traces.table.values(TESTBED, places)) <= {self.axis.testbed}

    def at(self, places: Places) -> list[StoredTrace]:
        """Return the traces at places of the table."""
        return [self.traces.stored[place] for place in places.tolist()]


class WindowSource:
    """A :class:`perftrend.analysis.formula.WindowSource` of the traces of a window's testbed."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._rows = TraceSource(window.traces.table, len(window.points), self._values)
        self._shared: Places = np.array([], dtype=np.intp)
        self._read: Samples | None = None

    def share(self, places: Places) -> None:
        """Announce the traces that several formulas use parts of, so that their values are read once.

        :param places: ascending. If they have more values than one formula may have, they are not shared.
        """
        if len(places) * len(self._window.points) <= DEFAULT_LIMITS.cells:
            self._shared, self._read = places, None

    def _values(self, places: Places) -> Samples:
        if not np.isin(places, self._shared).all():
            return self._window.values(places)
        if self._read is None:
            self._read = self._window.values(self._shared)
        chosen = np.searchsorted(self._shared, places)
        # Preserve the memory layout: the last digits of sums depend on it.
        if self._read.flags.c_contiguous:
            return self._read.take(chosen, axis=0)
        return self._read.T.take(chosen, axis=1).T

    def select(self, query: Query, *, most: int) -> Mapping[str, Samples]:
        """Return the traces that match a query; nothing is read if there are more than ``most``."""
        return self._rows.select(self._window.here(query), most=most)

    def traces(self, keys: Sequence[TraceKey]) -> Mapping[str, Samples]:
        """Return those of the traces that exist."""
        return self._rows.traces(keys)

    def shortcut(self, identity: str) -> Sequence[StoredId] | None:
        """Return the content of a shortcut; None if it does not exist."""
        held = self._window.store.shortcuts.load(identity)
        try:
            return None if held is None else parse_stored_ids(held)
        except FormulaError as error:
            raise FormulaError(error.subject, 0, f"in the shortcut {identity}: {error.reason}") from None


def open_window(site: AppContext, state: ExploreState) -> Window | None:
    """Return the selected window, with the selected point in it; None if the store has no run.

    :raises UsageError: if the testbed or the tile does not exist.
    """
    testbeds = site.store.tiles.testbeds()
    if not testbeds:
        return None
    if state.testbed and state.testbed not in testbeds:
        hint = errors.nearest(state.testbed, testbeds)
        raise UsageError(f"testbed {state.testbed!r} has no runs in the store{hint}")
    axis = site.store.tiles.axis(state.testbed or usual_testbed(site, testbeds))
    # Before it is used: a power of a scale of nine digits is never computed to the end.
    wanted = validate_tile(state.scale, state.tile or 0)
    last = newest(len(axis.columns), state.scale)
    tile = last if state.tile is None else min(wanted, last, key=lambda each: each.number)
    window = Window(
        site.store,
        site.catalog.now(),
        axis,
        tile,
        follows=state.tile is None,
        downsample=state.downsample,
        size=state.points,
    )
    sought = _sought(state)
    if window.follows and sought is not None and sought < window.columns.start:
        return replace(window, tile=tile_of(sought, state.scale), follows=False)
    return window


def _sought(state: ExploreState) -> int | None:
    """Return the column that an address refers to, however old it is; None if it does not refer to one."""
    if state.at is not None or state.zoom.columns is None:
        return state.at
    return max(int(state.zoom.columns.middle), 0)


@dataclass(frozen=True, slots=True, eq=False)
class AlignedTestbeds:
    """Columns of another testbed, aligned with those of the same commits here."""

    axis: Axis
    """Axis of the other testbed."""
    places: NDArray[np.intp]
    """For each column here, the index of the column with the same commit there, or -1."""

    @classmethod
    def from_axes(cls, here: Axis, there: Axis) -> Self:
        """Align the columns of two testbeds."""
        ours, theirs = common([here.columns, there.columns])
        places = np.full(len(here.columns), -1, dtype=np.intp)
        places[ours[ours >= 0]] = theirs[ours >= 0]
        return cls(there, places)

    def column(self, number: int) -> TileColumn | None:
        """Return the other testbed's column for a column here; None: it did not measure that commit."""
        place = int(self.places[number])
        return None if place < 0 else self.axis.columns[place]

    def values(self, store: Store, ids: NDArray[np.int64], columns: range) -> Samples:
        """Return the values of traces of the other testbed in consecutive columns here.

        :returns: shape (n, columns), NaN for gaps.
        """
        return store.tiles.values_at(self.axis, ids, self.places[columns.start : columns.stop])
