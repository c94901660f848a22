"""Connections to the store's database, and its errors in words for people.

SQLite runs in WAL mode: readers and one writer do not wait for each other, and what was
committed survives a kill at any moment. A writer takes its lock when it begins, so that two
writers queue instead of failing when the second comes to write.

PostgreSQL lets writers work side by side; where that would end in a deadlock or in a double they
come one after the other, too, by :func:`alone`. A connection that the server has closed meanwhile
is replaced before it is used.
"""

from __future__ import annotations

import sqlite3
import threading
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from math import ceil
from pathlib import Path
from typing import cast

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, NoSuchModuleError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import ConnectionPoolEntry
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random

from perftrend.errors import StoreError, StoreFullError, UnstorableError
from perftrend.store.patience import left_s

BUSY_S = 60
"""How long a patient writer waits for another one: a run is written in well under a second."""

_CONNECTIONS = 20
"""Connections that a process keeps when they are not used: as many as a busy dashboard has readers."""
_AT_MOST = 60
"""Connections of a process; whoever needs one more waits."""
_WAIT_S = 10
"""For so long: they are all in use when the database hangs."""
_ALONE = 5_764_607_523_034
"""What PostgreSQL knows the lock of :func:`alone` by: any number that nobody else takes. Those of subjects
follow it."""
_POSTGRESQL = "postgresql+psycopg"
_COMMITS = "perftrend_commits"
_IS_COUNTED = ContextVar("is_counted", default=True)

_HINTS = {
    "SQLITE_FULL": "the disk is full; free some space and run again",
    "SQLITE_NOTADB": "this is no database; name another file",
    "SQLITE_CORRUPT": "the file is damaged; restore it from a copy, or ingest the archives again",
    "SQLITE_CANTOPEN": "it cannot be opened; is its folder there, and may this user write into it?",
    "SQLITE_READONLY": "it cannot be written; may this user write the file and its folder?",
    "SQLITE_PERM": "it cannot be written; may this user write the file and its folder?",
    "SQLITE_BUSY": "another process keeps it locked for too long; run again when that has ended",
    "SQLITE_IOERR": "the disk failed or is full; look at it and run again",
}
_DISK_FULL = "53100"
"""How PostgreSQL says that there is no room."""
_CANCELED = "57014"
"""How PostgreSQL says that a statement took longer than it may."""


class Commits:
    """Counts what this process has committed to a store."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    @property
    def count(self) -> int:
        """How many there were, of those that count."""
        return self._count

    def note(self) -> None:
        """Count one more."""
        if _IS_COUNTED.get():
            with self._lock:
                self._count += 1


@contextmanager
def uncounted() -> Generator[None, None, None]:
    """Count none of what this thread commits in the block."""
    before = _IS_COUNTED.set(False)
    try:
        yield
    finally:
        _IS_COUNTED.reset(before)


def engine_of(place: str | Path) -> Engine:
    """Make the engine of a store; nothing is opened yet.

    :param place: the path of an SQLite file, or a URL such as ``postgresql://host/name``.
    :raises StoreError: if there is no such kind of database, or its driver is not installed.
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
            f"store {_without_password(url)}: needs the Python package {error.name}; "
            "for PostgreSQL, install it with: ./run --with postgresql"
        ) from error
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise StoreError(f"store {_without_password(url)}: cannot be used: {error}") from error
    engine.update_execution_options(**{_COMMITS: Commits()})
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare)
        event.listen(engine, "begin", _begin)
    elif address.drivername == _POSTGRESQL:
        from perftrend.store.postgresql import make_patient  # noqa: PLC0415 - its driver is an extra

        make_patient(engine)
    return engine


@contextmanager
def reading(engine: Engine) -> Generator[Connection, None, None]:
    """Give a connection that sees one state of the store throughout."""
    with explained(engine), engine.begin() as connection:
        yield connection


@contextmanager
def writing(engine: Engine, *, tables: bool = False) -> Generator[Connection, None, None]:
    """Give a connection whose work enters the store as one transaction, or not at all.

    :param tables: whether tables themselves change. To change a column SQLite makes the table anew, during
        which other tables' rows must not be held to what they refer to.
    """
    try:
        with (
            explained(engine),
            engine.connect().execution_options(writes=True, tables=tables) as connection,
            connection.begin(),
        ):
            yield connection
    finally:
        # Where it failed, too: a connection can break after the database has committed.
        commits_of(engine).note()


def commits_of(engine: Engine) -> Commits:
    """Return what this process has committed by an engine."""
    return cast("Commits", engine.get_execution_options()[_COMMITS])


@contextmanager
def entering(connection: Connection) -> Generator[None, None, None]:
    """Let rows be entered that another process may enter at the same time.

    Where it was first, IntegrityError leaves what was done before as it was. SQLite has one writer at a
    time, so there nobody can be; and a full disk would take the savepoint away from under us.
    """
    if connection.dialect.name == "sqlite":
        yield
    else:
        with connection.begin_nested():
            yield


def alone(connection: Connection, subject: str = "") -> None:
    """Let one writer at a time go on from here to the end of its transaction, as SQLite always does.

    :param subject: what the writer writes; empty if it is to be the only one of all.
    """
    if connection.dialect.name == "postgresql":
        key = _ALONE + 1 + zlib.crc32(subject.encode()) if subject else _ALONE
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(key)))


def _prepare(opened: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    connection = cast("sqlite3.Connection", opened)
    # Python's own transaction handling begins late; ours begins where SQLAlchemy says.
    connection.isolation_level = None
    _wait_no_longer(connection)
    _use_wal(connection)


def _wait_no_longer(connection: sqlite3.Connection) -> None:
    """Let a connection wait for others as long as its user now has time."""
    connection.execute(f"PRAGMA busy_timeout = {ceil(_busy_s() * 1000)}")


def _busy_s() -> float:
    left = left_s()
    return BUSY_S if left is None else min(left, BUSY_S)


def _use_wal(connection: sqlite3.Connection) -> None:
    # SQLite does not heed the busy timeout here: to change the mode it raises its lock from shared to
    # exclusive, and where two processes do so at once it refuses one, as waiting would be a deadlock.
    for attempt in Retrying(
        retry=retry_if_exception(_is_busy),
        stop=stop_after_delay(_busy_s()),
        wait=wait_random(0.005, 0.05),
        reraise=True,
    ):
        with attempt:
            connection.execute("PRAGMA journal_mode = WAL")


def _is_busy(error: BaseException) -> bool:
    return getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY")


def _begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    opened = cast("sqlite3.Connection", connection.connection.driver_connection)
    _wait_no_longer(opened)
    opened.execute(f"PRAGMA foreign_keys = {'OFF' if options.get('tables') else 'ON'}")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("writes") else "BEGIN")


@contextmanager
def explained(engine: Engine) -> Generator[None, None, None]:
    """Say in words for people what the database refuses."""
    try:
        yield
    except DataError as error:
        raise UnstorableError(f"store {_name(engine)}: {_explanation(error.orig)}") from error
    except DBAPIError as error:
        kind = StoreFullError if _is_full(error.orig) else StoreError
        raise kind(f"store {_name(engine)}: {_explanation(error.orig)}") from error
    except PoolTimeoutError as error:
        reason = f"all {_AT_MOST} connections are in use; does it hang?"
        raise StoreError(f"store {_name(engine)}: {reason}") from error


def _name(engine: Engine) -> str:
    return str(engine.url.database) if engine.dialect.name == "sqlite" else engine.url.render_as_string()


def _is_full(error: BaseException | None) -> bool:
    name = getattr(error, "sqlite_errorname", "") or ""
    return name.startswith("SQLITE_FULL") or getattr(error, "sqlstate", "") == _DISK_FULL


def _explanation(error: BaseException | None) -> str:
    name = getattr(error, "sqlite_errorname", "")
    for beginning, hint in _HINTS.items():
        if name.startswith(beginning):
            return hint
    if getattr(error, "sqlstate", "") == _CANCELED:
        return "it takes too long; does another process keep it locked?"
    return " ".join(str(error).split())


def _without_password(url: str) -> str:
    try:
        return sa.make_url(url).render_as_string()
    except ArgumentError:
        return url.partition("://")[0] + "://…"
