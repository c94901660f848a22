"""Connections to PostgreSQL that end in time, whatever becomes of the server.

A server that is well ends a statement by itself when its time is over, a wait for somebody's lock too
(``statement_timeout``). But its machine may hang, or the network be gone: then nobody ends anything. So the
waiting itself is bounded here, and a connection that said nothing in time is given up. What the network loses
without a word is noticed by TCP, also where nobody bounds anything.
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

from perftrend.store.patience import left_s

_T = TypeVar("_T")

CONNECT_S = 10
"""How long a server has to take a connection; what the address of the store says outweighs it."""
_GRACE_S = 1.0
"""How much longer we wait than the server does: its own word is better than a connection that is given up."""
_NETWORK = {
    "connect_timeout": CONNECT_S,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


def make_patient(engine: Engine) -> None:
    """Let the connections of an engine wait no longer than their user allows."""
    event.listen(engine, "do_connect", _connect)
    event.listen(engine, "begin", _begin)


class PatientConnection(psycopg.Connection[Any]):
    """A connection whose every wait has an end, where its caller has set one."""

    def wait(self, gen: Generator[Any, Any, _T], *args: Any, **options: Any) -> _T:  # noqa: ANN401 - psycopg's own
        """Wait for an operation, as psycopg does; give the connection up where that takes too long."""
        left = left_s()
        if left is None:
            return super().wait(gen, *args, **options)
        try:
            return super().wait(_until(gen, time.monotonic() + left + _GRACE_S), *args, **options)
        except _SilentError:
            self.close()
            raise


class _SilentError(psycopg.OperationalError):
    """The server said nothing in time."""


def _until(gen: Generator[Any, Any, _T], end: float) -> Generator[Any, Any, _T]:
    """Pass an operation on until it ends by itself, or at a moment of the monotonic clock."""
    try:
        wanted = next(gen)
        while True:
            # psycopg looks in ten times a second, also when there is nothing.
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
    told = {**_NETWORK, **named}
    left = left_s()
    if left is not None:
        told["connect_timeout"] = min(int(told["connect_timeout"]), ceil(left))
    return PatientConnection.connect(*positional, **told)


def _begin(connection: Connection) -> None:
    left = left_s()
    if left is not None:
        # Until the end of the transaction: others use the connection after us.
        connection.exec_driver_sql(f"SET LOCAL statement_timeout = {ceil(left * 1000)}")
