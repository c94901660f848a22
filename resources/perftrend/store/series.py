"""Queries that give runs, results and series back.

A series is made of many small rows (a thousand traces over half a year are 180,000), so they are
fetched by one query in the order of runs and grouped here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from operator import itemgetter

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from perftrend.model import Better, Result, Run, Series, TraceKey
from perftrend.store import rows
from perftrend.store.schema import details, results, runs, trace_params, traces

_COLUMNS = (results.c.status, results.c.value, results.c.samples, results.c.invalid, results.c.message)


def runs_of(
    connection: Connection, testbed: str, *, last: int | None = None, until: Run | None = None
) -> dict[int, Run]:
    """Return the runs of a testbed by id, in the order of time."""
    query = sa.select(runs).where(runs.c.testbed == testbed)
    if until is not None:
        query = query.where(
            (runs.c.started < until.started)
            | ((runs.c.started == until.started) & (runs.c.build <= until.build))
        )
    query = query.order_by(runs.c.started.desc(), runs.c.build.desc(), runs.c.id.desc()).limit(last)
    return {row.id: rows.run_of_row(row) for row in reversed(connection.execute(query).all())}


def results_of(connection: Connection, run_id: int | None) -> list[Result]:
    """Return the results of a run with their details, in the order in which they were stored."""
    query = (
        sa.select(traces, *_COLUMNS, details.c.details)
        .select_from(results.join(traces).outerjoin(details, _same_result()))
        .where(results.c.run_id == run_id)
        .order_by(results.c.trace_id)
    )
    return [
        rows.result_of_columns(rows.trace_of_row(row), row.details or {}, *row[-6:-1])
        for row in connection.execute(query)
    ]


def _same_result() -> sa.ColumnElement[bool]:
    return (details.c.run_id == results.c.run_id) & (details.c.trace_id == results.c.trace_id)


def series_of(connection: Connection, chosen: Mapping[int, Run], where: Mapping[str, str]) -> list[Series]:
    """Return the traces that the chosen runs tried, in the order of their keys."""
    query = sa.select(results.c.run_id, results.c.trace_id, *_COLUMNS).where(results.c.run_id.in_(chosen))
    known = sa.select(traces)
    for name, value in where.items():
        matching = sa.select(trace_params.c.trace_id).where(
            trace_params.c.name == name, trace_params.c.value == value
        )
        known = known.where(traces.c.id.in_(matching))
    described = {row.id: rows.trace_of_row(row) for row in connection.execute(known)}
    positions = {run_id: position for position, run_id in enumerate(chosen)}
    grouped: dict[int, list[tuple[int, Result]]] = {}
    for run_id, trace_id, *columns in connection.execute(query):
        if trace_id not in described:
            continue
        result = rows.result_of_columns(described[trace_id], {}, *columns)
        grouped.setdefault(trace_id, []).append((positions[run_id], result))
    every_run = tuple(chosen.values())
    found = [_series(described[trace_id], entries, every_run) for trace_id, entries in grouped.items()]
    return sorted(found, key=lambda series: series.key.parameters)


def _series(
    trace: tuple[TraceKey, str, Better], entries: list[tuple[int, Result]], every_run: tuple[Run, ...]
) -> Series:
    entries.sort(key=itemgetter(0))
    tried = tuple(result for _, result in entries)
    samples = np.array([result.value if result.usable else math.nan for result in tried])
    return Series(*trace, tuple(every_run[position] for position, _ in entries), samples, tried)
