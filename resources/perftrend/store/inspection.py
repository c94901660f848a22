"""Inspection of a store without changing it: its schema version, and the rights of its user.

Opening a store otherwise creates or upgrades its tables, and switches an SQLite file to WAL mode.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine

from perftrend.store.connection import engine_of, patience, translate_errors
from perftrend.store.schema import runs
from perftrend.store.upgrade import version_in

_RIGHTS = {"insert": "INSERT", "update": "UPDATE", "delete": "DELETE"}


@dataclass(frozen=True, slots=True)
class StoreState:
    """What an inspection found."""

    version: str
    """The schema version; empty if there are no tables yet."""
    missing_rights: tuple[str, ...] = ()
    """What the database user may not do although jobs do it, as verbs."""


def inspect(place: str, *, timeout_s: float) -> StoreState:
    """Return the state of a store that exists.

    :param timeout_s: maximum time to wait for the database.
    :raises StoreError: if it cannot be opened, is not a database, belongs to another program, or has a newer
        version.
    """
    file = file_of(place)
    with patience(timeout_s), _engine(file, place) as engine, _connection(engine) as connection:
        version = version_in(connection, place)
        return StoreState(version, () if file else tuple(_missing_rights(connection)))


def file_of(place: str) -> Path | None:
    """Return the file of an SQLite store; None for the database of a server.

    :raises StoreError: if the kind of database is not known, or its driver is not installed.
    """
    engine = engine_of(place)
    return Path(str(engine.url.database)) if engine.dialect.name == "sqlite" else None


@contextmanager
def _engine(file: Path | None, place: str) -> Generator[Engine, None, None]:
    """Yield an engine of a store; it reads an SQLite file without creating another one next to it."""
    if file is None:
        engine = engine_of(place)
    else:
        # Without a WAL, no process has the file open, and all of it is in the file itself. A connection that
        # is only read-only would create an empty WAL and leave it.
        is_whole = not file.with_name(f"{file.name}-wal").exists()
        address = f"file:{quote(str(file))}?mode=ro{'&immutable=1' if is_whole else ''}"
        engine = sa.create_engine(
            URL.create("sqlite", database=str(file)), creator=lambda: sqlite3.connect(address, uri=True)
        )
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def _connection(engine: Engine) -> Generator[Connection, None, None]:
    with translate_errors(engine), engine.connect() as connection, connection.begin():
        yield connection


def _missing_rights(connection: Connection) -> Generator[str, None, None]:
    if not sa.inspect(connection).has_table(runs.name):
        may_create = sa.text("SELECT has_schema_privilege(current_schema(), 'CREATE')")
        if not connection.execute(may_create).scalar_one():
            yield "create tables"
        return
    for verb, right in _RIGHTS.items():
        query = sa.text("SELECT has_table_privilege(:table, :right)")
        if not connection.execute(query, {"table": runs.name, "right": right}).scalar_one():
            yield verb
