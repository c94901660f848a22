"""A wait for the database ends at the deadline of the request; without a deadline it lasts as before."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from perftrend.errors import StoreError
from perftrend.store import Store, connection, postgresql
from perftrend.store.connection import (
    BUSY_S,
    LEAST_S,
    engine_of,
    read_transaction,
    remaining_s,
    write_transaction,
)

pytestmark = pytest.mark.sqlite


@pytest.fixture
def place(tmp_path: Path) -> Path:
    Store.open(tmp_path / "store.sqlite").close()
    return tmp_path / "store.sqlite"


@pytest.mark.parametrize("transaction", [read_transaction, write_transaction])
def test_transaction_waits_for_others_as_long_as_its_user_has_time(
    place: Path, transaction: Callable[..., connection.contextmanager[object]]
) -> None:
    engine = engine_of(place)

    def waits_ms() -> int:
        with transaction(engine) as opened:
            return int(opened.exec_driver_sql("PRAGMA busy_timeout").scalar())

    assert BUSY_S * 1000 == waits_ms()
    with connection.patience(5.0):
        assert 4000 < waits_ms() <= 5000
        with connection.patience(1.0):
            assert waits_ms() <= 1000
    # The connection is the same one, out of the pool.
    assert BUSY_S * 1000 == waits_ms()
    engine.dispose()


def test_error_of_the_database_does_not_replace_an_interruption(place: Path) -> None:
    def execute() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise OperationalError("", None, sqlite3.OperationalError("cannot clean up"))

    engine = engine_of(place)
    with pytest.raises(KeyboardInterrupt), connection.translate_errors(engine):
        execute()
    engine.dispose()


def test_database_that_somebody_keeps_locked_is_told_of(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LEAST_S", 0.01)
    with Store.open(place) as store, closing(sqlite3.connect(place, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with connection.patience(0.01), pytest.raises(StoreError, match="another process has locked it"):
            store.annotations.add("0" * 40, "text", user="ann")
        assert [] == store.annotations.newest(1)
        other.execute("ROLLBACK")

        with connection.patience(0.01):
            assert "text" == store.annotations.add("0" * 40, "text", user="ann").text


def test_who_has_spent_the_time_still_gets_a_little() -> None:
    with connection.patience(1e-9):
        assert LEAST_S == remaining_s()


def test_nobody_is_hurried_who_has_not_said_so() -> None:
    seen = []
    with connection.patience(1.0):
        other = threading.Thread(target=lambda: seen.append(remaining_s()))
        other.start()
        other.join()

    assert [None] == seen
    assert remaining_s() is None


def test_lack_of_connections_is_told_of(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_CONNECTIONS", 1)
    monkeypatch.setattr(connection, "_AT_MOST", 1)
    monkeypatch.setattr(connection, "_WAIT_S", 0.01)
    engine = engine_of(place)

    with (
        read_transaction(engine),
        pytest.raises(StoreError, match="all 1 connections are in use"),
        read_transaction(engine),
    ):
        pass
    engine.dispose()


def operation(steps: int, seen: list[object]) -> Generator[str, object, str]:
    """Do as psycopg's operations do: say what is waited for, and be told what came."""
    for step in range(steps):
        came = yield f"wait {step}"
        seen.append(came)
    return "done"


def test_operation_in_time_goes_on_as_if_nobody_looked() -> None:
    seen: list[object] = []
    watched = postgresql._until(operation(2, seen), time.monotonic() + 60)

    assert "wait 0" == next(watched)
    assert "wait 1" == watched.send("first")
    with pytest.raises(StopIteration) as end:
        watched.send("second")
    assert ("done", ["first", "second"]) == (end.value.value, seen)


def test_operation_that_never_waits_is_passed_on() -> None:
    with pytest.raises(StopIteration) as end:
        next(postgresql._until(operation(0, []), time.monotonic() - 60))

    assert "done" == end.value.value


def test_operation_that_takes_too_long_is_given_up() -> None:
    watched = postgresql._until(operation(9, []), time.monotonic() - 1)
    next(watched)

    with pytest.raises(postgresql.psycopg.OperationalError, match="does not answer in time"):
        watched.send(None)
