"""Several processes at once, and processes that are killed in the middle of their work."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import threading
from contextlib import closing
from datetime import UTC, datetime
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from sqlalchemy import event

from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.store import Store

pytestmark = pytest.mark.sqlite

AT_COMMIT = 999
"""More than there are INSERTs: the process dies when all is written and nothing committed."""

PROCESSES = multiprocessing.get_context("forkserver")
# They begin at once, without importing anything.
PROCESSES.set_forkserver_preload([__name__])


def adding(path: Path, first: int, last: int, deadly: int = 0) -> BaseProcess:
    """Start a process that adds the builds from first to last, and dies at an INSERT if it is deadly."""
    process = PROCESSES.Process(target=add, args=(path, first, last, deadly))
    process.start()
    return process


def add(path: Path, first: int, last: int, deadly: int = 0) -> None:
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    keys = [TraceKey.of(testbed="1n-veth", test=f"t{n}") for n in range(50)]
    results = [Result(key, "pps", Better.HIGHER, Status.PASS, (1.0,), 1.0, details={"a": 1}) for key in keys]
    with Store.open(path) as store:
        if deadly:
            die_at(store, deadly)
        for build in range(first, last):
            assert store.add(Run("1n-veth", "trending", build, moment, moment), results)


def die_at(store: Store, insertion: int) -> None:
    """Let this process kill itself after so many INSERTs, or just before it commits."""
    written: list[bool] = []

    @event.listens_for(store._engine, "after_cursor_execute")
    def die(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        written.append(statement.startswith("INSERT"))
        if sum(written) == insertion:
            os.kill(os.getpid(), signal.SIGKILL)

    @event.listens_for(store._engine, "commit")
    def die_before_commit(_: object) -> None:
        if any(written) and insertion == AT_COMMIT:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("deadly", [*range(1, 9), AT_COMMIT])
def test_run_that_was_killed_half_way_was_never_there(tmp_path: Path, deadly: int) -> None:
    """At the run, the traces, the results, the details, each table of the tiles, just before the commit."""
    path = tmp_path / "store.sqlite"
    killed = adding(path, 1, 2, deadly)
    killed.join()

    assert -signal.SIGKILL == killed.exitcode
    with Store.open(path) as store:
        assert [] == store.runs("1n-veth")
    add(path, 1, 2)
    with Store.open(path) as store:
        assert [1] == [run.build for run in store.runs("1n-veth")]
        assert 50 == len(store.series("1n-veth"))


@pytest.mark.parametrize("deadly", [1, 2, 3, 4, AT_COMMIT])
def test_killed_run_leaves_earlier_runs_as_they_were(tmp_path: Path, deadly: int) -> None:
    path = tmp_path / "store.sqlite"
    add(path, 1, 2)
    killed = adding(path, 2, 3, deadly)
    killed.join()

    assert -signal.SIGKILL == killed.exitcode
    with Store.open(path) as store:
        assert [1] == [run.build for run in store.runs("1n-veth")]
        assert {1} == {len(series.samples) for series in store.series("1n-veth")}


def test_processes_that_create_and_add_at_once_all_succeed(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    processes = [adding(path, 10 * n, 10 * n + 10) for n in range(4)]

    for process in processes:
        process.join()

    assert [0, 0, 0, 0] == [process.exitcode for process in processes]
    with Store.open(path) as store:
        assert list(range(40)) == sorted(run.build for run in store.runs("1n-veth"))
        assert {40} == {len(series.samples) for series in store.series("1n-veth")}


def test_file_that_another_process_is_about_to_write_is_waited_for(tmp_path: Path) -> None:
    """Two that create a store at once: SQLite itself refuses this at once, see connection._use_wal."""
    path = tmp_path / "store.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        rollback = threading.Timer(0.3, other.execute, ["ROLLBACK"])
        rollback.start()
        with Store.open(path) as store:
            assert [] == store.runs("1n-veth")
        rollback.join()
