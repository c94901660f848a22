"""Claims: one process at a time works on what a row requests, or serves a store.

A claim of a row writes into it until when it is valid. If the process ends before its work does, another
process claims the row after that time. :class:`Leadership` is valid as long as its process and the database
are connected.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from perftrend.errors import StoreError
from perftrend.store.connection import patience, read_transaction, translate_errors, write_transaction

_CLASS = 576_460_752
"""The first key of the advisory locks of roles: any number that no other program uses."""
_ANSWER_S = 5.0
"""How long the database may take to confirm a role."""
_LOST = {
    "tcp_keepalives_idle": "10s",
    "tcp_keepalives_interval": "5s",
    "tcp_keepalives_count": "2",
    # Without it, a machine that goes before it confirms a response is noticed after a quarter of an hour.
    "tcp_user_timeout": "20s",
}
"""Within 20 s the server notices that the machine of a process is gone, and the role is free."""


class Leadership:
    """The right to a role that one process at a time has, such as to serve the requests; in PostgreSQL.

    It is an advisory lock of a connection that is used for nothing else. The server releases it when the
    connection ends, however the process ends.
    """

    def __init__(self, engine: Engine, role: str) -> None:
        self._engine = engine
        self._key = zlib.crc32(role.encode()) >> 1
        self._connection: Connection | None = None

    def is_held(self) -> bool:
        """Return whether this process has the role; claim it if no process has it.

        :raises StoreError: if the database does not confirm it. The role is then lost.
        """
        try:
            with patience(_ANSWER_S), translate_errors(self._engine):
                if self._connection is not None:
                    self._connection.execute(sa.select(1))
                    return True
                return self._claim()
        except StoreError:
            self.release()
            raise

    def release(self) -> None:
        """Let another process have the role."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()
            connection.close()

    def _claim(self) -> bool:
        self._connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        for name, value in _LOST.items():
            self._connection.execute(sa.select(sa.func.set_config(name, value, sa.false())))
        claim = sa.select(sa.func.pg_try_advisory_lock(_CLASS, self._key))
        if not self._connection.execute(claim).scalar_one():
            self.release()
        return self._connection is not None


def claim_row(
    engine: Engine,
    table: sa.Table,
    due: sa.ColumnElement[bool],
    *,
    first: sa.ColumnElement[Any],
    change: Callable[[sa.RowMapping], Mapping[str, Any]],
) -> Mapping[str, Any] | None:
    """Claim one of the rows that are due and that no other process is claiming at the moment.

    :param first: the column by which rows are claimed, the smallest first.
    :param change: returns the columns that a claim changes.
    :returns: the row as it is now; None if there is nothing to do.
    """
    query = sa.select(table).where(due).order_by(first).limit(1)
    with read_transaction(engine) as connection:
        # Most of the time there is nothing to do, and a reader does not wait for locks.
        if connection.execute(query).first() is None:
            return None
    with write_transaction(engine) as connection:
        row = connection.execute(query.with_for_update(skip_locked=True)).mappings().first()
        if row is None:
            return None
        columns = change(row)
        same = sa.and_(*(column == row[column.name] for column in table.primary_key))
        connection.execute(sa.update(table).where(same).values(**columns))
        return {**row, **columns}
