"""Copies of a whole store: as a file while jobs use it, or row by row into another database.

A copy is a snapshot of one moment. It contains runs, results and the data of the dashboard.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from perftrend.errors import StoreError
from perftrend.store.connection import alone, read_transaction, write_transaction
from perftrend.store.schema import metadata

_ROWS_AT_ONCE = 1000


def copy_rows(source: Engine, target: Engine) -> dict[str, int]:
    """Copy all rows into another database with the same, empty tables, in one transaction."""
    counts = {}
    with _snapshot(source) as reads, write_transaction(target) as writes:
        alone(writes)
        for table in metadata.sorted_tables:
            counts[table.name] = 0
            # In batches: a table may be larger than the memory.
            found = reads.execution_options(stream_results=True).execute(sa.select(table))
            for rows in found.mappings().partitions(_ROWS_AT_ONCE):
                writes.execute(sa.insert(table), [dict(row) for row in rows])
                counts[table.name] += len(rows)
            if target.dialect.name == "postgresql":
                _go_on_counting(writes, table)
    return counts


def count_rows(engine: Engine) -> int:
    """Return the number of rows in all tables of a store."""
    with _snapshot(engine) as reads:
        return sum(
            reads.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            for table in metadata.sorted_tables
        )


def copy_file(source: Path, target: Path) -> None:
    """Copy a snapshot of an SQLite database, including its write-ahead log, into a single file.

    :raises StoreError: if it cannot be read or written, or is damaged.
    """
    try:
        with (
            closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as reads,
            closing(sqlite3.connect(target)) as writes,
        ):
            reads.backup(writes)
            writes.execute("PRAGMA journal_mode = DELETE")
            [[found], *_] = writes.execute("PRAGMA quick_check(1)").fetchall()
    except sqlite3.Error as error:
        raise StoreError(f"store {source}: cannot be copied to {target}: {error}") from error
    if found != "ok":
        raise StoreError(f"store {source}: the file is damaged: {found}")


def make_single(file: Path) -> None:
    """Move the content of an SQLite file's write-ahead log into the file."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")


@contextmanager
def _snapshot(engine: Engine) -> Iterator[Connection]:
    """Yield a connection that sees the store as it is now, regardless of concurrent writes."""
    if engine.dialect.name == "postgresql":
        engine = engine.execution_options(isolation_level="REPEATABLE READ")
    with read_transaction(engine) as connection:
        yield connection


def _go_on_counting(connection: Connection, table: sa.Table) -> None:
    """Set the sequence of a table, so that PostgreSQL numbers new rows above the copied ones."""
    keys = list(table.primary_key.columns)
    if len(keys) != 1 or not isinstance(keys[0].type, sa.Integer) or keys[0].foreign_keys:
        return
    sequence = sa.func.pg_get_serial_sequence(table.name, keys[0].name)
    newest = sa.select(sa.func.max(keys[0])).scalar_subquery()
    # Without rows or without a sequence, nothing is set: setval returns NULL for NULL.
    connection.execute(sa.select(sa.func.setval(sequence, newest)))
