"""Reading of traces, and of their points: from the tiles if these are trusted, otherwise from the results."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from perftrend.model import Better, Result, Run, Samples, TraceKey
from perftrend.store import rows
from perftrend.store.rows import INVALID, IS_FORMER_TRACE, USABLE, TraceNames, names_of
from perftrend.store.schema import details, results, runs, traces
from perftrend.store.tiles import blocks
from perftrend.store.tiles.axes import Axis
from perftrend.store.tiles.blocks import BLOCK, Sheet
from perftrend.store.tiles.columns import TileColumn
from perftrend.store.tiles.scales import FACTOR, PLANES, POINTS, columns_of_point, fold, planes_of, points_of

Ids = NDArray[np.int64]
"""Ids of traces, shape (n,)."""

_AT_ONCE = 5000
"""Traces whose parameters are read together."""
_FEW = 500
"""Up to this number, traces are queried by their ids; more by the range of their ids."""
_SCATTERED = {"sqlite": 2, "postgresql": 8}
"""Traces of a block, on average, up to which they are read one by one: PostgreSQL sends bytes as text."""

_HAS_VALUE = USABLE & results.c.value.is_not(None)


@dataclass(frozen=True, slots=True)
class StoredTrace:
    """A trace of the store; its id is valid in this store only, its key in every store."""

    trace_id: int
    hash: str
    """The hash of its key, which takes microseconds to calculate."""
    key: TraceKey
    unit: str
    better: Better


def traces_after(connection: Connection, trace_id: int) -> list[StoredTrace]:
    """Return the traces with greater ids, ascending, without those of former names."""
    columns = (traces.c.id, traces.c.hash, traces.c.unit, traces.c.better, traces.c.parameters)
    query = sa.select(*columns).where(traces.c.id > trace_id, ~IS_FORMER_TRACE).order_by(traces.c.id)
    better = {each.value: each for each in Better}
    keys = rows.KeyReader()
    found: list[StoredTrace] = []
    for some in connection.execute(query).partitions(_AT_ONCE):
        read = keys.read([parameters for *_, parameters in some])
        found += [
            StoredTrace(number, name, key, sys.intern(unit), better[value])
            for (number, name, unit, value, _), key in zip(some, read, strict=True)
        ]
    return found


def results_in(connection: Connection, trace_id: int, column: TileColumn) -> list[tuple[Run, Result]]:
    """Return all results of a trace in a column, with their samples and details, in the order of time."""
    trace = connection.execute(sa.select(traces).where(traces.c.id == trace_id)).first()
    if trace is None:
        return []
    names = names_of(connection)
    columns = (results.c.status, results.c.value, results.c.samples, INVALID, results.c.message)
    query = (
        sa.select(runs, results.c.trace_id, *columns)
        .join(results, results.c.run_id == runs.c.id)
        .where(results.c.trace_id.in_(names.with_former([trace_id])), names.counts)
        .where(results.c.run_id.in_(column.runs))
    )
    stored = {row.id: row for row in connection.execute(query)}
    details_of_run = _read_details(connection, {run: row.trace_id for run, row in stored.items()})
    parts = rows.trace_of_row(trace)
    return [
        (rows.run_of_row(row), rows.result_of_columns(parts, details_of_run.get(run, {}), *row[-5:]))
        for run in column.runs
        if (row := stored.get(run)) is not None
    ]


def runs_in(connection: Connection, column: TileColumn) -> list[Run]:
    """Return the runs of a column, in the order of time."""
    query = sa.select(runs).where(runs.c.id.in_(column.runs))
    stored = {row.id: rows.run_of_row(row) for row in connection.execute(query)}
    return [stored[run] for run in column.runs if run in stored]


def _read_details(connection: Connection, trace_of_run: Mapping[int, int]) -> dict[int, Mapping[str, Any]]:
    """Return the details of results by run; see :func:`perftrend.store.rows.details_columns`.

    :param trace_of_run: the trace of the result in each run, both by their ids.
    """
    of_runs: dict[int, Mapping[str, Any]] = {}
    place = sa.tuple_(details.c.run_id, details.c.trace_id)
    while trace_of_run:
        query = sa.select(details.c.run_id, details.c.details).where(place.in_(list(trace_of_run.items())))
        stored = {row.run_id: row.details for row in connection.execute(query)}
        of_runs |= {run: found for run, found in stored.items() if isinstance(found, Mapping)}
        # Such a result has the details of another one of its run.
        trace_of_run = {run: found for run, found in stored.items() if isinstance(found, int)}
    return of_runs


def samples_in(
    connection: Connection, ids: Sequence[int], columns: Sequence[TileColumn]
) -> dict[tuple[int, int], tuple[float, ...]]:
    """Return all usable samples of traces in columns, by the trace's id and the column's position."""
    place_of = {run: place for place, column in enumerate(columns) for run in column.runs}
    names = names_of(connection)
    query = (
        sa.select(results.c.run_id, names.trace_id, results.c.samples)
        .where(USABLE, results.c.run_id.in_(place_of))
        .where(results.c.trace_id.in_(names.with_former(ids)), names.counts)
        .order_by(results.c.run_id)
    )
    found: dict[tuple[int, int], tuple[float, ...]] = {}
    for run_id, trace_id, samples in connection.execute(query):
        place = trace_id, place_of[run_id]
        found[place] = (*found.get(place, ()), *rows.unpack_samples(samples))
    return found


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


def values_of(connection: Connection, columns: Sequence[TileColumn], ids: Ids) -> Samples:
    """Return the values of some traces in some columns.

    :param ids: ascending, without duplicates.
    :returns: shape (columns, n); NaN where there is no value that may enter a trend. If several runs of a
        column have a value, it is their average.
    """
    values = np.full((len(columns), len(ids)), np.nan)
    if not len(ids):
        return values
    names = names_of(connection)
    query = sa.select(names.trace_id, results.c.value).where(_HAS_VALUE, names.counts, _among(names, ids))
    for row, column in zip(values, columns, strict=True):
        counts = np.zeros(len(ids))
        for run in column.runs:
            found = connection.execute(query.where(results.c.run_id == run)).all()
            if found:
                _enter(row, counts, ids, *(np.array(each) for each in zip(*found, strict=True)))
    return values


def range_of(connection: Connection, columns: Sequence[TileColumn]) -> tuple[int, int] | None:
    """Return the least and the greatest id of the traces that have results; None if there are none."""
    ids = names_of(connection).trace_id.element
    bounds = [
        connection.execute(sa.select(sa.func.min(ids), sa.func.max(ids)).where(results.c.run_id == run)).one()
        for column in columns
        for run in column.runs
    ]
    found = [(first, last) for first, last in bounds if first is not None]
    return (min(first for first, _ in found), max(last for _, last in found)) if found else None


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


def _among(names: TraceNames, ids: Ids) -> sa.ColumnElement[bool]:
    if len(ids) <= _FEW:
        return results.c.trace_id.in_(names.with_former(ids.tolist()))
    first, last = int(ids[0]), int(ids[-1])
    former = [old for old, current in names.current.items() if first <= current <= last]
    in_range = results.c.trace_id.between(first, last)
    return in_range | results.c.trace_id.in_(former) if former else in_range


def _enter(row: Samples, counts: Samples, ids: Ids, measured: Ids, values: Samples) -> None:
    """Add the results of one run, which has at most one of each trace, to the averages of a column."""
    places = np.searchsorted(ids, measured)
    # A trace of the range may have a current name that is outside of it.
    wanted = ids[np.minimum(places, len(ids) - 1)] == measured
    places, values = places[wanted], values[wanted]
    counts[places] += 1
    before = np.where(np.isnan(row[places]), values, row[places])
    with np.errstate(over="ignore"):
        moved = before + (values - before) / counts[places]
    # Despite overflow and rounding, the average is between the two.
    row[places] = np.clip(moved, np.minimum(before, values), np.maximum(before, values))
