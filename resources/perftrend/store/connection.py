"""Connections to the store's database: deadlines, readable messages for errors, and detection of changes.

SQLite runs in WAL mode: readers and one writer do not wait for each other, and committed
transactions survive a kill at any moment. A writer acquires its lock when its transaction begins,
so that two writers queue instead of failing when the second one writes.

PostgreSQL lets writers work concurrently. If that could cause a deadlock or a duplicate,
:func:`alone` serializes them. A connection that the server has closed is replaced before it is used.

A job can wait a minute for the database: a night's results are worth it. A user who waits for a page cannot.
So a request sets a deadline, and all database access in it, at any depth, has only the time that is left::

    with patience(30.0):
        site.store.runs(testbed)

The deadline is part of the context (:mod:`contextvars`). It applies to the threads that serve the request,
but not to background threads.
"""

from __future__ import annotations

import sqlite3
import threading
import time
import zlib
from collections.abc import Generator, Hashable
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from math import ceil
from pathlib import Path
from typing import cast

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, NoSuchModuleError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import ConnectionPoolEntry
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random

from perftrend import command_to_install
from perftrend.errors import (
    NoStoreError,
    StoreError,
    StoreFullError,
    UnstorableError,
    replaces_interruption,
)

BUSY_S = 60
"""How long a writer without a deadline waits for another one: a run is written in well under a second."""
LEAST_S = 0.5
"""Minimum time, even after the deadline: a working database needs less."""

_CONNECTIONS = 20
"""Idle connections that a process retains: as many as a busy dashboard has readers."""
_AT_MOST = 60
"""Maximum number of connections of a process; further callers wait."""
_WAIT_S = 10
"""How long they wait: all connections are in use if the database hangs."""
_ALONE = 5_764_607_523_034
"""The key of the advisory lock of :func:`alone`: any number that no other program uses. The keys of subjects
follow it."""
_POSTGRESQL = "postgresql+psycopg"
_COMMITS = "perftrend_commits"
_IS_COUNTED = ContextVar("is_counted", default=True)
_END: ContextVar[float | None] = ContextVar("end", default=None)

_HINTS = {
    "SQLITE_FULL": "the disk is full; free some space and run again",
    "SQLITE_NOTADB": "this is not a database; name another file",
    "SQLITE_CORRUPT": "the file is damaged; restore it from a copy, or ingest the archives again",
    "SQLITE_CANTOPEN": "it cannot be opened; does its folder exist, and may this user write to it?",
    "SQLITE_READONLY": "it cannot be written; may this user write the file and its folder?",
    "SQLITE_PERM": "it cannot be written; may this user write the file and its folder?",
    "SQLITE_BUSY": "another process has locked it for too long; run again when that process has ended",
    "SQLITE_IOERR": "the disk failed or is full; check it and run again",
}
_DISK_FULL = "53100"
"""SQLSTATE of PostgreSQL for a full disk."""
_CANCELED = "57014"
"""SQLSTATE of PostgreSQL for a statement that exceeded its timeout."""


@contextmanager
def patience(seconds: float) -> Generator[None, None, None]:
    """Set a deadline for all waits for the database in the block."""
    token = _END.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _END.reset(token)


def remaining_s() -> float | None:
    """Return how long the database may take from now on, at least :data:`LEAST_S`; None if unlimited."""
    end = _END.get()
    return None if end is None else max(end - time.monotonic(), LEAST_S)


class Commits:
    """A counter of this process's commits to a store."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    @property
    def count(self) -> int:
        """The number of commits, without those in :func:`suspend_commit_count`."""
        return self._count

    def note(self) -> None:
        """Count a commit, unless it is in :func:`suspend_commit_count`."""
        if _IS_COUNTED.get():
            with self._lock:
                self._count += 1


@contextmanager
def suspend_commit_count() -> Generator[None, None, None]:
    """Do not count the commits of this thread in the block."""
    before = _IS_COUNTED.set(False)
    try:
        yield
    finally:
        _IS_COUNTED.reset(before)


def engine_of(place: str | Path) -> Engine:
    """Return the engine of a store; no connection is opened yet.

    :param place: the path of an SQLite file, or a URL such as ``postgresql://host/name``.
    :raises StoreError: if the kind of database is not known, or its driver is not installed.
    """
    url = str(place) if "://" in str(place) else f"sqlite:///{Path(place).absolute()}"
    try:
        address = sa.make_url(url)
        if address.drivername == "postgresql":
            address = address.set(drivername=_POSTGRESQL)
        engine = sa.create_engine(
            address,
            pool_pre_ping=True,
            pool_size=_CONNECTIONS,
            max_overflow=_AT_MOST - _CONNECTIONS,
            pool_timeout=_WAIT_S,
        )
    except ModuleNotFoundError as error:
        raise StoreError(
            f"store {redact_password(url)}: needs the Python package {error.name}; "
            f"for PostgreSQL, install it with: {command_to_install('postgresql', 'psycopg[binary]')}"
        ) from error
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise StoreError(f"store {redact_password(url)}: cannot be used: {error}") from error
    engine.update_execution_options(**{_COMMITS: Commits()})
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare)
        event.listen(engine, "begin", _begin)
    elif address.drivername == _POSTGRESQL:
        from perftrend.store.postgresql import limit_waits  # noqa: PLC0415 - its driver is an extra

        limit_waits(engine)
    return engine


@contextmanager
def read_transaction(engine: Engine) -> Generator[Connection, None, None]:
    """Yield a connection for reading; in SQLite it sees one state of the store throughout."""
    with translate_errors(engine), engine.begin() as connection:
        yield connection


@contextmanager
def write_transaction(engine: Engine, *, tables: bool = False) -> Generator[Connection, None, None]:
    """Yield a connection whose changes are committed as one transaction, or not at all.

    :param tables: whether the schema changes. To change a column, SQLite creates the table again; meanwhile,
        foreign keys must not be enforced.
    """
    try:
        with (
            translate_errors(engine),
            engine.connect().execution_options(writes=True, tables=tables) as connection,
            connection.begin(),
        ):
            yield connection
    finally:
        # After a failure, too: a connection can break after the database has committed.
        commits_of(engine).note()


def commits_of(engine: Engine) -> Commits:
    """Return the counter of this process's commits by an engine."""
    return cast("Commits", engine.get_execution_options()[_COMMITS])


@contextmanager
def savepoint(connection: Connection) -> Generator[None, None, None]:
    """Insert rows in the block that another process may insert at the same time.

    If the other process was first, IntegrityError does not undo earlier changes. SQLite has one writer at a
    time, so it needs no savepoint, and would lose one if the disk is full.
    """
    if connection.dialect.name == "sqlite":
        yield
    else:
        with connection.begin_nested():
            yield


def alone(connection: Connection, subject: str = "") -> None:
    """Serialize writers of a subject from here to the end of the transaction, as SQLite always does.

    :param subject: what the writer writes; empty is a subject of its own.
    """
    if connection.dialect.name == "postgresql":
        key = _ALONE + 1 + zlib.crc32(subject.encode()) if subject else _ALONE
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(key)))


def _prepare(opened: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    connection = cast("sqlite3.Connection", opened)
    # Python's sqlite3 begins transactions late; SQLAlchemy begins ours.
    connection.isolation_level = None
    _wait_no_longer(connection)
    _use_wal(connection)


def _wait_no_longer(connection: sqlite3.Connection) -> None:
    """Set the busy timeout of a connection to the time that its caller has left."""
    connection.execute(f"PRAGMA busy_timeout = {ceil(_busy_s() * 1000)}")


def _busy_s() -> float:
    left = remaining_s()
    return BUSY_S if left is None else min(left, BUSY_S)


def _use_wal(connection: sqlite3.Connection) -> None:
    # SQLite ignores the busy timeout here. To change the mode, it upgrades its lock from shared to exclusive.
    # If two processes do so at once, it rejects one of them, because waiting would be a deadlock.
    for attempt in Retrying(
        retry=retry_if_exception(_is_busy),
        stop=stop_after_delay(_busy_s()),
        wait=wait_random(0.005, 0.05),
        reraise=True,
    ):
        with attempt:
            connection.execute("PRAGMA journal_mode = WAL")


def _is_busy(error: BaseException) -> bool:
    return _sqlite_name(error).startswith("SQLITE_BUSY")


def _begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    opened = cast("sqlite3.Connection", connection.connection.driver_connection)
    _wait_no_longer(opened)
    opened.execute(f"PRAGMA foreign_keys = {'OFF' if options.get('tables') else 'ON'}")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("writes") else "BEGIN")


@contextmanager
def translate_errors(engine: Engine) -> Generator[None, None, None]:
    """Raise errors of the database as store errors with readable messages.

    :raises KeyboardInterrupt: if an error replaced it: callers that try again later would not end.
    """
    try:
        yield
    except (DBAPIError, PoolTimeoutError) as error:
        if replaces_interruption(error):
            raise KeyboardInterrupt from error
        raise _translate(error, _name(engine)) from error


def _translate(error: DBAPIError | PoolTimeoutError, name: str) -> StoreError:
    if isinstance(error, PoolTimeoutError):
        return StoreError(f"store {name}: all {_AT_MOST} connections are in use; does the database hang?")
    kind = StoreError
    if isinstance(error, DataError):
        kind = UnstorableError
    elif _is_full(error.orig):
        kind = StoreFullError
    elif _sqlite_name(error.orig).startswith("SQLITE_NOTADB"):
        kind = NoStoreError
    return kind(f"store {name}: {_explanation(error.orig)}")


def _name(engine: Engine) -> str:
    return str(engine.url.database) if engine.dialect.name == "sqlite" else engine.url.render_as_string()


def _is_full(error: BaseException | None) -> bool:
    return _sqlite_name(error).startswith("SQLITE_FULL") or getattr(error, "sqlstate", "") == _DISK_FULL


def _sqlite_name(error: BaseException | None) -> str:
    """Return the name of an error of SQLite; empty for another error."""
    return getattr(error, "sqlite_errorname", "") or ""


def _explanation(error: BaseException | None) -> str:
    name = _sqlite_name(error)
    for beginning, hint in _HINTS.items():
        if name.startswith(beginning):
            return hint
    if getattr(error, "sqlstate", "") == _CANCELED:
        return "it takes too long; has another process locked it?"
    return " ".join(str(error).split())


def may_exist(url: URL) -> bool:
    """Return whether the file of an SQLite store exists; a server is only known when it is connected to."""
    return url.get_backend_name() != "sqlite" or Path(url.database or "").is_file()


def redact_password(place: str) -> str:
    """Return a path, or a URL without its password, for messages."""
    if "://" not in place:
        return place
    try:
        return sa.make_url(place).render_as_string()
    except ArgumentError:
        return place.partition("://")[0] + "://…"


class Changes:
    """Identification of the states of a database, so that derived values can be reused.

    SQLite counts for each connection the transactions that other connections have committed (``PRAGMA
    data_version``). So one connection is reserved for this purpose, and all writers are other connections.
    PostgreSQL returns the transactions that a query would see (``pg_current_snapshot``): a transaction that
    writes is in progress in one snapshot and finished in the next. Both cost a few microseconds of the
    database, and neither reads a table. Safe for several threads.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._opened = 0

    @property
    def own(self) -> int:
        """The number of commits of this process; known without a query."""
        return commits_of(self._engine).count

    def state(self) -> Hashable:
        """Return a value that changes with every commit.

        If two values are equal, everything that was read after the first is unchanged at the second.

        :raises StoreError: if the database cannot be queried; for SQLite, the next value then is a new one.
        """
        if self._engine.dialect.name != "sqlite":
            with read_transaction(self._engine) as connection:
                snapshot: str = connection.execute(sa.text("SELECT pg_current_snapshot()::text")).scalar_one()
            return snapshot
        with self._lock:
            try:
                return self._data_version()
            except StoreError:
                self._close()
                raise

    @staticmethod
    def suspend_commit_count() -> AbstractContextManager[None]:
        """Exclude the commits of this thread in the block from :attr:`own`: only :meth:`state` shows them."""
        return suspend_commit_count()

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._close()

    def _data_version(self) -> Hashable:
        with translate_errors(self._engine):
            if self._connection is None:
                self._connection = self._engine.connect()
                self._opened += 1
            with self._connection.begin():
                version = self._connection.exec_driver_sql("PRAGMA data_version").scalar_one()
            # Numbers of two connections cannot be compared.
            return self._opened, version

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
