"""The schema version of a database: its inspection, and its upgrade to the newest.

An upgrade is made step by step, in one transaction. An inspection changes nothing: opening a store otherwise
creates or upgrades its tables, and switches an SQLite file to WAL mode.
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

from perftrend.errors import NewerStoreError, NoStoreError
from perftrend.store.connection import (
    alone,
    engine_of,
    patience,
    read_transaction,
    redact_password,
    translate_errors,
    write_transaction,
)
from perftrend.store.schema import HEAD, metadata, runs

MIGRATIONS = Path(__file__).parent / "migrations"

VERSION_TABLE = "perftrend_version"
"""The table in which Alembic stores the schema version of the database."""
_QUERY_VERSION = sa.text(f"SELECT version_num FROM {VERSION_TABLE}")  # noqa: S608 - a constant name
_RIGHTS = {"insert": "INSERT", "update": "UPDATE", "delete": "DELETE"}


def upgrade(engine: Engine, name: str) -> None:
    """Create the tables, or migrate them to the newest schema; do nothing if they have it.

    Safe if several processes start at once: the second waits for the first, and then has nothing to do.

    :param name: the name of the store in messages; a password in it is not shown.
    :raises NewerStoreError: if the database has a newer version.
    :raises NoStoreError: if it belongs to another program.
    """
    with read_transaction(engine) as connection:
        if _version_in(connection, name) == HEAD:
            return
    with write_transaction(engine, tables=True) as connection:
        alone(connection)
        version = _version_in(connection, name)
        if not version:
            _create(connection)
        elif version != HEAD:
            _migrate(connection)


def version_of(engine: Engine, name: str) -> str:
    """Return the schema version of the database; empty if it has no tables yet.

    :raises StoreError: as :func:`upgrade` does.
    """
    with read_transaction(engine) as connection:
        return _version_in(connection, name)


def has_newest_version(engine: Engine) -> bool:
    """Return whether the database still has the schema of this version; another process may migrate it."""
    with read_transaction(engine) as connection:
        return str(connection.execute(_QUERY_VERSION).scalar()) == HEAD


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
        version = _version_in(connection, place)
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


def _version_in(connection: Connection, name: str) -> str:
    """Return the schema version of a database that a connection is to, as :func:`version_of` does."""
    name = redact_password(name)
    tables = sa.inspect(connection).get_table_names()
    if VERSION_TABLE not in tables:
        if tables:
            raise NoStoreError(
                f"store {name}: it contains tables of another program, such as {tables[0]}; name another one"
            )
        return ""
    version = connection.execute(_QUERY_VERSION).scalar_one()
    if version > HEAD:
        raise NewerStoreError(
            f"store {name}: it has version {version}, newer than {HEAD} of this perftrend; upgrade perftrend"
        )
    return str(version)


def _create(connection: Connection) -> None:
    """Create the tables of the newest schema, in a third of the time of all migrations."""
    metadata.create_all(connection, checkfirst=False)
    # As Alembic would create it.
    versions = sa.Table(
        VERSION_TABLE,
        sa.MetaData(),
        sa.Column("version_num", sa.String(32)),
        sa.PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
    )
    versions.create(connection, checkfirst=False)
    connection.execute(sa.insert(versions), {"version_num": HEAD})


def _migrate(connection: Connection) -> None:
    from alembic import command  # noqa: PLC0415 - most starts need no migration
    from alembic.config import Config  # noqa: PLC0415 - as above

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
