"""Connections to PostgreSQL whose waits are bounded, even if the server hangs.

A working server cancels a statement after ``statement_timeout``, including a wait for a lock. It cannot do
so if its machine hangs or the network is down. Therefore the client bounds its own waits, and closes a
connection that does not answer in time. TCP keep-alive detects lost connections even without a time limit.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from math import ceil
from typing import Any, TypeVar

import psycopg
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.pool import ConnectionPoolEntry

from perftrend.store.connection import remaining_s

_T = TypeVar("_T")

CONNECT_S = 10
"""Seconds to establish a connection; the address of the store overrides them."""
_GRACE_S = 1.0
"""How much longer the client waits than the server, whose own error is better than a closed connection."""
_NETWORK = {
    "connect_timeout": CONNECT_S,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


def limit_waits(engine: Engine) -> None:
    """Limit the waits of an engine's connections to what their callers allow."""
    event.listen(engine, "do_connect", _connect)
    event.listen(engine, "begin", _begin)


class PatientConnection(psycopg.Connection[Any]):
    """A connection whose waits end at the deadline of the caller, if there is one."""

    def wait(self, gen: Generator[Any, Any, _T], *args: Any, **options: Any) -> _T:  # noqa: ANN401 - psycopg's own
        """Wait for an operation, as psycopg does; close the connection if that takes too long."""
        left = remaining_s()
        if left is None:
            return super().wait(gen, *args, **options)
        try:
            return super().wait(_until(gen, time.monotonic() + left + _GRACE_S), *args, **options)
        except _SilentError:
            self.close()
            raise


class _SilentError(psycopg.OperationalError):
    """The server did not answer in time."""


def _until(gen: Generator[Any, Any, _T], end: float) -> Generator[Any, Any, _T]:
    """Delegate to an operation until it ends, or until a moment of the monotonic clock."""
    try:
        wanted = next(gen)
        while True:
            # psycopg resumes this generator ten times a second, even without input.
            ready = yield wanted
            if time.monotonic() > end:
                raise _SilentError("the server does not answer in time")
            wanted = gen.send(ready)
    except StopIteration as done:
        result: _T = done.value
        return result


def _connect(
    _: Dialect, __: ConnectionPoolEntry, positional: list[Any], named: dict[str, Any]
) -> PatientConnection:
    options = {**_NETWORK, **named}
    left = remaining_s()
    if left is not None:
        options["connect_timeout"] = min(int(options["connect_timeout"]), ceil(left))
    return PatientConnection.connect(*positional, **options)


def _begin(connection: Connection) -> None:
    left = remaining_s()
    if left is not None and connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT":
        # Until the end of the transaction, if there is one: the connection is reused afterwards.
        connection.exec_driver_sql(f"SET LOCAL statement_timeout = {ceil(left * 1000)}")
