"""Values of columns from the results, to build tiles, or to replace tiles that are not trusted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from perftrend.model import Samples
from perftrend.store.result_expressions import USABLE, TraceNames, names_of
from perftrend.store.schema import results
from perftrend.store.tiles.columns import TileColumn

Ids = NDArray[np.int64]
"""Ids of traces, shape (n,)."""

_FEW = 500
"""Up to this number, traces are queried by their ids; more by the range of their ids."""

_HAS_VALUE = USABLE & results.c.value.is_not(None)


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


def _among(names: TraceNames, ids: Ids) -> sa.ColumnElement[bool]:
    if len(ids) <= _FEW:
        return results.c.trace_id.in_(names.with_former(ids.tolist()))
    first, last = int(ids[0]), int(ids[-1])
    former = [old for old, current in names.current.items() if first <= current <= last]
    in_range = results.c.trace_id.between(first, last)
    return in_range | results.c.trace_id.in_(former) if former else in_range


def _enter(row: Samples, counts: Samples, ids: Ids, traces: Ids, values: Samples) -> None:
    """Add the results of one run, which has at most one of each trace, to the averages of a column."""
    places = np.searchsorted(ids, traces)
    # A trace of the range may have a current name that is outside of it.
    wanted = ids[np.minimum(places, len(ids) - 1)] == traces
    places, values = places[wanted], values[wanted]
    counts[places] += 1
    before = np.where(np.isnan(row[places]), values, row[places])
    with np.errstate(over="ignore"):
        moved = before + (values - before) / counts[places]
    # Despite overflow and rounding, the average is between the two.
    row[places] = np.clip(moved, np.minimum(before, values), np.maximum(before, values))
