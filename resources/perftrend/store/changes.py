"""Whether anything in the database has changed, without reading it: what was made of it is still right then.

SQLite counts for each connection the transactions that others have committed (``PRAGMA data_version``). So
one connection is kept for this alone, and everybody else is an other. PostgreSQL tells which transactions a
query would see (``pg_current_snapshot``): one that has written is under way in one answer and done in the
next. Both cost a few microseconds of the database, and neither reads a table.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from contextlib import AbstractContextManager

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from perftrend.errors import StoreError
from perftrend.store.connection import commits_of, explained, reading, uncounted


class Changes:
    """Tells one state of the database from the others; safe for several threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._kept: Connection | None = None
        self._opened = 0

    @property
    def own(self) -> int:
        """How often this process has committed; known without asking the database."""
        return commits_of(self._engine).count

    def state(self) -> Hashable:
        """Return what differs as soon as anybody has committed something.

        Where two answers are equal, what was read after the first was there at the second as well.

        :raises StoreError: if the database cannot be asked; what it answers later is another state.
        """
        if self._engine.dialect.name != "sqlite":
            with reading(self._engine) as connection:
                snapshot: str = connection.execute(sa.text("SELECT pg_current_snapshot()::text")).scalar_one()
            return snapshot
        with self._lock:
            try:
                return self._data_version()
            except StoreError:
                self._close()
                raise

    @staticmethod
    def unhurried() -> AbstractContextManager[None]:
        """Let what this thread commits in the block be found by :meth:`state` alone: nobody waits for it."""
        return uncounted()

    def close(self) -> None:
        """Let the connection go."""
        with self._lock:
            self._close()

    def _data_version(self) -> Hashable:
        with explained(self._engine):
            if self._kept is None:
                self._kept = self._engine.connect()
                self._opened += 1
            with self._kept.begin():
                version = self._kept.exec_driver_sql("PRAGMA data_version").scalar_one()
            # Numbers of two connections have nothing to do with each other.
            return self._opened, version

    def _close(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None
