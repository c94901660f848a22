"""Maintenance of a whole store: check, back up, restore, migrate and move it.

A check is that of the database itself, and one between the tables. A copy is a snapshot of one moment: as a
file while jobs use the store, or row by row into another database. It contains runs, results and the data of
the dashboard.
"""

from __future__ import annotations

import glob
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy.dialects.postgresql import REGCLASS
from sqlalchemy.engine import Connection, Engine

from perftrend import COMMAND
from perftrend.errors import StoreError
from perftrend.store.connection import (
    alone,
    engine_of,
    may_exist,
    read_transaction,
    redact_password,
    write_transaction,
)
from perftrend.store.schema import (
    HEAD,
    details,
    invalidations,
    metadata,
    patch_tests,
    results,
    runs,
    tile_runs,
    trace_params,
    traces,
)
from perftrend.store.schema_version import MIGRATIONS, upgrade, version_of

_UNFINISHED = ".unfinished"

_ROWS_AT_ONCE = 1000

_SQLITE_SEQUENCE = sa.table("sqlite_sequence", sa.column("name"), sa.column("seq"))
"""SQLite's own table of the last numbers of the tables that never use one again."""
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
    """Runs that pages draw slowly, until ``./run rebuild-tiles`` makes their tiles; not a fault."""


def check(place: str | Path) -> StoreCheck:
    """Read a whole store, and report what is wrong with it.

    :raises StoreError: if it cannot be read, or is not of the newest version.
    """
    with open_newest(place) as engine:
        return _check_tables(engine)


def backup(place: str | Path, file: Path) -> None:
    """Copy a store from any database into a new SQLite file; jobs can use the store meanwhile.

    :raises StoreError: if the file exists, or if one of the two cannot be read or written; then no file is
        left.
    """
    if file.exists():
        raise StoreError(f"{file} exists; name a new file")
    with _open_engine(place, is_there=True) as source, _atomic_file(file) as temporary:
        if source.dialect.name == "sqlite" and version_of(source, str(place)):
            # Also that of an older version: such a backup is the way back from an upgrade.
            _copy_file(Path(str(source.url.database)), temporary)
            return
        _require_newest(source, place)
        with _open_engine(temporary) as target:
            upgrade(target, str(temporary))
            _copy_rows(source, target)
        _make_single(temporary)


def restore(file: Path, place: str | Path) -> None:
    """Copy a backup into a store that is empty or does not exist yet.

    The backup may be of an older version; the file itself is not changed.

    :raises StoreError: if the file is not a backup, or if the store is not empty. It is then unchanged.
    """
    if not file.is_file():
        raise StoreError(f"{file}: the file does not exist")
    with _open_engine(place) as target:
        is_file = target.dialect.name == "sqlite"
        new = Path(str(target.url.database)) if is_file else None
        if new and not new.exists():
            with _atomic_file(new) as temporary:
                _copy_backup(file, temporary)
                _make_single(temporary)
            return
        upgrade(target, str(place))
        _require_empty(target, place)
        with _atomic_file(file.with_name(f"{file.name}.upgraded"), publish=False) as temporary:
            _copy_backup(file, temporary)
            with _open_engine(temporary) as source:
                _copy_rows(source, target)


def _copy_backup(file: Path, temporary: Path) -> None:
    """Copy a backup, and migrate the copy to the newest schema."""
    _copy_file(file, temporary)
    with _open_engine(temporary) as made:
        if not version_of(made, str(file)):
            raise StoreError(f"{file}: it does not contain a store")
        upgrade(made, str(file))


def move(place: str | Path, other: str) -> dict[str, int]:
    """Copy a store into another, empty database, such as from SQLite to PostgreSQL.

    :returns: the number of rows of each table, by its name. The store itself is not changed.
    :raises StoreError: if the other database is not empty, or if one of the two cannot be used. The other one
        is then unchanged, except for empty tables.
    """
    with _open_engine(place, is_there=True) as source, _open_engine(other) as target:
        _require_newest(source, place)
        upgrade(target, target.url.render_as_string())
        _require_empty(target, target.url.render_as_string())
        return _copy_rows(source, target)


def prepare_move(place: str | Path, other: str) -> int:
    """Return the number of rows that :func:`move` would copy; nothing is changed.

    :raises StoreError: as :func:`move` does.
    """
    with _open_engine(place, is_there=True) as source, _open_engine(other) as target:
        _require_newest(source, place)
        if may_exist(target.url) and version_of(target, other):
            _require_empty(target, redact_password(other))
        return _count_rows(source)


def list_pending(place: str | Path) -> list[str]:
    """Return the pending migrations, one line each; none if the store has the newest schema.

    :raises StoreError: if the store does not exist or cannot be read.
    """
    with _open_engine(place, is_there=True) as engine:
        version = version_of(engine, str(place))
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    steps = list(ScriptDirectory.from_config(config).iterate_revisions(HEAD, version or "base"))
    return [f"{step.revision}: {(step.doc or '').strip()}" for step in reversed(steps)]


def migrate(place: str | Path) -> None:
    """Migrate a store to the newest schema, in one transaction.

    :raises StoreError: if that fails; the store is then unchanged.
    """
    with _open_engine(place, is_there=True) as engine:
        upgrade(engine, str(place))


@contextmanager
def open_newest(place: str | Path) -> Iterator[Engine]:
    """Yield the engine of a store that exists and is of the newest version, and dispose of it afterwards.

    :raises StoreError: if there is none, or it is of an older version.
    """
    with _open_engine(place, is_there=True) as engine:
        _require_newest(engine, place)
        yield engine


def _require_newest(engine: Engine, place: str | Path) -> None:
    """Reject a store that does not have the schema version of this perftrend.

    :raises StoreError: if it does not.
    """
    version = version_of(engine, str(place))
    if version != HEAD:
        what = f"it has version {version}" if version else "it has no tables"
        shown = redact_password(str(place))
        raise StoreError(f"store {shown}: {what}; {COMMAND} store migrate upgrades it to version {HEAD}")


def _require_empty(engine: Engine, place: str | Path) -> None:
    """Reject a store that is not empty.

    :raises StoreError: if it is not empty.
    """
    shown = redact_password(str(place))
    with read_transaction(engine) as connection:
        for table in metadata.sorted_tables:
            if connection.execute(sa.select(sa.literal(1)).select_from(table).limit(1)).first():
                raise StoreError(f"store {shown}: it is not empty (table {table.name}); name a new one")


@contextmanager
def _open_engine(place: str | Path, *, is_there: bool = False) -> Iterator[Engine]:
    """Yield the engine of a store, and dispose of it afterwards.

    :param is_there: whether the store must exist: SQLite creates missing files.
    """
    engine = engine_of(place)
    if is_there and not may_exist(engine.url):
        raise StoreError(f"store {place}: the file does not exist")
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def _atomic_file(file: Path, *, publish: bool = True) -> Iterator[Path]:
    """Yield the path of a temporary file, which becomes the file at the end; an error removes it.

    Temporary files of killed processes are removed.

    :param publish: False to remove the temporary file in any case.
    """
    for abandoned in file.parent.glob(f".{glob.escape(file.name)}.*{_UNFINISHED}*"):
        process = abandoned.name.partition(_UNFINISHED)[0].rpartition(".")[2]
        if process.isdecimal() and not Path("/proc", process).exists():
            abandoned.unlink(missing_ok=True)
    for side in _side_files(file) if publish else ():
        if side.exists():
            raise StoreError(f"{side} belongs to another database, and SQLite would mix both; move it away")
    temporary = file.with_name(f".{file.name}.{os.getpid()}{_UNFINISHED}")
    try:
        yield temporary
        if publish:
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            # Unlike a rename, this fails if the file exists by now.
            os.link(temporary, file)
    except OSError as error:
        raise StoreError(f"{file}: cannot be written: {error.strerror}") from error
    finally:
        for name in (temporary, *_side_files(temporary)):
            name.unlink(missing_ok=True)


def _side_files(file: Path) -> list[Path]:
    """Return the files that SQLite writes next to a database."""
    return [file.with_name(file.name + end) for end in ("-wal", "-shm", "-journal")]


def _copy_rows(source: Engine, target: Engine) -> dict[str, int]:
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
            if (key := _counted_key(table)) is not None:
                _go_on_counting(writes, key, _last_number(reads, key))
    return counts


def _count_rows(engine: Engine) -> int:
    """Return the number of rows in all tables of a store."""
    with _snapshot(engine) as reads:
        return sum(
            reads.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            for table in metadata.sorted_tables
        )


def _copy_file(source: Path, target: Path) -> None:
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


def _make_single(file: Path) -> None:
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


def _counted_key(table: sa.Table) -> sa.Column[Any] | None:
    """Return the key of a table whose rows the database numbers; None if it has another one."""
    keys = list(table.primary_key.columns)
    is_counted = len(keys) == 1 and isinstance(keys[0].type, sa.Integer) and not keys[0].foreign_keys
    return keys[0] if is_counted else None


def _last_number(connection: Connection, key: sa.Column[Any]) -> int:
    """Return the largest number that was ever given, also to a row that is deleted; 0 if it is not known."""
    if connection.dialect.name == "postgresql":
        query = sa.select(sa.func.pg_sequence_last_value(sa.cast(_sequence(key), REGCLASS)))
    else:
        query = sa.select(_SQLITE_SEQUENCE.c.seq).where(_SQLITE_SEQUENCE.c.name == key.table.name)
    return int(connection.execute(query).scalar() or 0)


def _go_on_counting(connection: Connection, key: sa.Column[Any], last: int) -> None:
    """Set the counter of a table above the numbers of the copied rows and of those deleted before."""
    if connection.dialect.name == "postgresql":
        newest = sa.select(sa.func.max(key)).scalar_subquery()
        number = sa.func.nullif(sa.func.greatest(newest, last), 0)
        # Without a number or without a sequence, nothing is set: setval returns NULL for NULL.
        connection.execute(sa.select(sa.func.setval(_sequence(key), number)))
    elif last and key.table.dialect_options["sqlite"]["autoincrement"]:
        counted = _SQLITE_SEQUENCE.c.name == key.table.name
        connection.execute(sa.delete(_SQLITE_SEQUENCE).where(counted))
        connection.execute(sa.insert(_SQLITE_SEQUENCE).values(name=key.table.name, seq=last))


def _sequence(key: sa.Column[Any]) -> sa.ColumnElement[Any]:
    return sa.func.pg_get_serial_sequence(key.table.name, key.name)


def _check_tables(engine: Engine) -> StoreCheck:
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
