"""Connections to the store's database, and its errors in words for people.

SQLite runs in WAL mode: readers and one writer do not wait for each other, and what was
committed survives a kill at any moment. A writer takes its lock when it begins, so that two
writers queue instead of failing when the second comes to write.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.pool import ConnectionPoolEntry
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random

from perftrend.errors import StoreError

BUSY_S = 60
"""How long a writer waits for another one: a run is written in well under a second."""

_HINTS = {
    "SQLITE_FULL": "the disk is full; free some space and run again",
    "SQLITE_NOTADB": "this is no database; name another file",
    "SQLITE_CORRUPT": "the file is damaged; restore it from a copy, or ingest the archives again",
    "SQLITE_CANTOPEN": "it cannot be opened; is its folder there, and may this user write into it?",
    "SQLITE_READONLY": "it cannot be written; may this user write the file and its folder?",
    "SQLITE_PERM": "it cannot be written; may this user write the file and its folder?",
    "SQLITE_BUSY": f"another process has kept it locked for {BUSY_S} s; run again when that has ended",
    "SQLITE_IOERR": "the disk failed or is full; look at it and run again",
}


def engine_of(place: str | Path) -> Engine:
    """Make the engine of a store; nothing is opened yet.

    :param place: the path of an SQLite file, or a URL such as ``postgresql://host/name``.
    :raises StoreError: if there is no such kind of database, or its driver is not installed.
    """
    url = str(place) if "://" in str(place) else f"sqlite:///{Path(place).absolute()}"
    try:
        engine = sa.create_engine(url)
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise StoreError(f"store {_without_password(url)}: cannot be used: {error}") from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare)
        event.listen(engine, "begin", _begin)
    return engine


@contextmanager
def reading(engine: Engine) -> Generator[Connection, None, None]:
    """Give a connection that sees one state of the store throughout."""
    with _explained(engine), engine.begin() as connection:
        yield connection


@contextmanager
def writing(engine: Engine) -> Generator[Connection, None, None]:
    """Give a connection whose work enters the store as one transaction, or not at all."""
    with (
        _explained(engine),
        engine.connect().execution_options(writes=True) as connection,
        connection.begin(),
    ):
        yield connection


def _prepare(opened: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    connection = cast("sqlite3.Connection", opened)
    # Python's own transaction handling begins late; ours begins where SQLAlchemy says.
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout = {BUSY_S * 1000}")
    connection.execute("PRAGMA foreign_keys = ON")
    _use_wal(connection)


def _use_wal(connection: sqlite3.Connection) -> None:
    # SQLite does not heed the busy timeout here: to change the mode it raises its lock from shared to
    # exclusive, and where two processes do so at once it refuses one, as waiting would be a deadlock.
    for attempt in Retrying(
        retry=retry_if_exception(_is_busy),
        stop=stop_after_delay(BUSY_S),
        wait=wait_random(0.005, 0.05),
        reraise=True,
    ):
        with attempt:
            connection.execute("PRAGMA journal_mode = WAL")


def _is_busy(error: BaseException) -> bool:
    return getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY")


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def _explained(engine: Engine) -> Generator[None, None, None]:
    try:
        yield
    except DBAPIError as error:
        place = engine.url.database if engine.dialect.name == "sqlite" else engine.url.render_as_string()
        raise StoreError(f"store {place}: {_explanation(error.orig)}") from error


def _explanation(error: BaseException | None) -> str:
    name = getattr(error, "sqlite_errorname", "")
    for beginning, hint in _HINTS.items():
        if name.startswith(beginning):
            return hint
    return " ".join(str(error).split())


def _without_password(url: str) -> str:
    try:
        return sa.make_url(url).render_as_string()
    except ArgumentError:
        return url.partition("://")[0] + "://…"
