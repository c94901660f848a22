"""Traces by their ids, as tiles identify them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from perftrend.model import Better, Result, Run, TraceKey
from perftrend.store import rows
from perftrend.store.result_expressions import INVALID, IS_FORMER_TRACE, USABLE, names_of
from perftrend.store.schema import results, runs, traces
from perftrend.store.tiles.columns import TileColumn

_AT_ONCE = 5000
"""Traces whose parameters are read together."""


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
    """Return all results of a trace in a column, with their samples, in the order of time."""
    trace = connection.execute(sa.select(traces).where(traces.c.id == trace_id)).first()
    if trace is None:
        return []
    names = names_of(connection)
    columns = (results.c.status, results.c.value, results.c.samples, INVALID, results.c.message)
    query = (
        sa.select(runs, *columns)
        .join(results, results.c.run_id == runs.c.id)
        .where(results.c.trace_id.in_(names.with_former([trace_id])), names.counts)
        .where(results.c.run_id.in_(column.runs))
    )
    found = {
        row.id: (rows.run_of_row(row), rows.result_of_columns(rows.trace_of_row(trace), {}, *row[-5:]))
        for row in connection.execute(query)
    }
    return [found[run] for run in column.runs if run in found]


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
