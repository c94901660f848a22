"""Migration of a database to the newest schema, step by step, in one transaction."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from perftrend.errors import NewerStoreError, NoStoreError
from perftrend.store.connection import alone, read_transaction, redact_password, write_transaction
from perftrend.store.schema import HEAD, metadata

MIGRATIONS = Path(__file__).parent / "migrations"

VERSION_TABLE = "perftrend_version"
"""The table in which Alembic stores the schema version of the database."""


def upgrade(engine: Engine, name: str) -> None:
    """Create the tables, or migrate them to the newest schema; do nothing if they have it.

    Safe if several processes start at once: the second waits for the first, and then has nothing to do.

    :param name: the name of the store in messages; a password in it is not shown.
    :raises NewerStoreError: if the database has a newer version.
    :raises NoStoreError: if it belongs to another program.
    """
    with read_transaction(engine) as connection:
        if version_in(connection, name) == HEAD:
            return
    with write_transaction(engine, tables=True) as connection:
        alone(connection)
        version = version_in(connection, name)
        if not version:
            _create(connection)
        elif version != HEAD:
            _migrate(connection)


def version_of(engine: Engine, name: str) -> str:
    """Return the schema version of the database; empty if it has no tables yet.

    :raises StoreError: as :func:`upgrade` does.
    """
    with read_transaction(engine) as connection:
        return version_in(connection, name)


def has_newest_version(engine: Engine) -> bool:
    """Return whether the database still has the schema of this version; another process may migrate it."""
    query = sa.text(f"SELECT version_num FROM {VERSION_TABLE}")  # noqa: S608 - a constant name
    with read_transaction(engine) as connection:
        return str(connection.execute(query).scalar()) == HEAD


def version_in(connection: Connection, name: str) -> str:
    """Return the schema version of a database that a connection is to, as :func:`version_of` does."""
    name = redact_password(name)
    tables = sa.inspect(connection).get_table_names()
    if VERSION_TABLE not in tables:
        if tables:
            raise NoStoreError(
                f"store {name}: it contains tables of another program, such as {tables[0]}; name another one"
            )
        return ""
    query = sa.text(f"SELECT version_num FROM {VERSION_TABLE}")  # noqa: S608 - a constant name
    version = connection.execute(query).scalar_one()
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
