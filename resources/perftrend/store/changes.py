"""Detection of changes in the database without reading it, so that derived values can be reused.

SQLite counts for each connection the transactions that other connections have committed (``PRAGMA
data_version``). So one connection is reserved for this purpose, and all writers are other connections.
PostgreSQL returns the transactions that a query would see (``pg_current_snapshot``): a transaction that
writes is in progress in one snapshot and finished in the next. Both cost a few microseconds of the database,
and neither reads a table.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from contextlib import AbstractContextManager

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from perftrend.errors import StoreError
from perftrend.store.connection import commits_of, read_transaction, suspend_commit_count, translate_errors


class Changes:
    """Identification of the states of a database; safe for several threads."""

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
