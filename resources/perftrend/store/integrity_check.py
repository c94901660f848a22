"""Integrity check of a store: by the database itself, and between the tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from perftrend.store.connection import read_transaction
from perftrend.store.schema import (
    details,
    invalidations,
    patch_tests,
    results,
    runs,
    tile_runs,
    trace_params,
    traces,
)

_MOST_FAULTS = 20
_SAMPLE_BYTES = 8


@dataclass(frozen=True, slots=True)
class StoreCheck:
    """Numbers of rows in a store, and its faults."""

    runs: int
    traces: int
    results: int
    patch_tests: int
    faults: tuple[str, ...]
    """Messages for users; at most 20."""
    runs_without_tiles: int
    """Runs that pages draw slowly, until ``./run tiles`` makes their tiles; not a fault."""


def check(engine: Engine) -> StoreCheck:
    """Check a whole store.

    :raises StoreError: if it cannot be read.
    """
    with read_transaction(engine) as connection:
        faults = [*_faults(connection)]
        stored_runs = _count(connection, runs)
        return StoreCheck(
            runs=stored_runs,
            traces=_count(connection, traces),
            results=_count(connection, results),
            patch_tests=_count(connection, patch_tests),
            faults=tuple(faults[:_MOST_FAULTS]),
            runs_without_tiles=stored_runs - _count(connection, tile_runs),
        )


def _count(connection: Connection, table: sa.Table) -> int:
    return connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()


def _faults(connection: Connection) -> Iterator[str]:
    if connection.dialect.name == "sqlite":
        yield from _faults_of_the_file(connection)
    for table in (results, details, invalidations):
        lonely = sa.select(sa.func.count()).select_from(table).where(table.c.trace_id.is_not(None))
        lonely = lonely.where(~sa.exists().where(traces.c.id == table.c.trace_id))
        if count := connection.execute(lonely).scalar_one():
            yield f"{count} rows of table {table.name} belong to traces that do not exist"
    torn = sa.select(sa.func.count()).select_from(results)
    torn = torn.where(sa.func.length(results.c.samples) % _SAMPLE_BYTES != 0)
    if count := connection.execute(torn).scalar_one():
        yield f"{count} results have samples that are cut off"
    backwards = sa.select(runs.c.job, runs.c.build).where(runs.c.finished < runs.c.started)
    for job, build in connection.execute(backwards.limit(_MOST_FAULTS)):
        yield f"run {job}/{build} finished before it started"
    unknown = sa.select(traces.c.id).where(~sa.exists().where(trace_params.c.trace_id == traces.c.id))
    for (trace,) in connection.execute(unknown.limit(_MOST_FAULTS)):
        yield f"trace {trace} has no parameters"


def _faults_of_the_file(connection: Connection) -> Iterator[str]:
    """Yield the faults that SQLite finds; PostgreSQL ensures both properties by itself."""
    for (message,) in connection.exec_driver_sql(f"PRAGMA integrity_check({_MOST_FAULTS})"):
        if message != "ok":
            yield f"the file is damaged: {message}"
    for table, row, parent, _ in connection.exec_driver_sql("PRAGMA foreign_key_check"):
        place = f"row {row}" if row is not None else "a row"
        yield f"{place} of table {table} belongs to a row of {parent} that does not exist"
