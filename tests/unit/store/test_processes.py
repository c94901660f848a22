"""Several processes at once, and processes that are killed in the middle of their work."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.store import Store

pytestmark = pytest.mark.sqlite

AT_COMMIT = 999
"""More than there are INSERTs: the process dies when all is written and nothing committed."""

ADD = """
import os, signal, sys
from datetime import UTC, datetime
from sqlalchemy import event
from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.store import Store

path, first, last, deadly = sys.argv[1], *map(int, sys.argv[2:])
moment = datetime(2026, 1, 2, tzinfo=UTC)
keys = [TraceKey.of(testbed="1n-veth", test=f"t{n}") for n in range(50)]
results = [
    Result(key, "pps", Better.HIGHER, Status.PASS, (1.0,), 1.0, details={"a": 1}) for key in keys
]
with Store.open(path) as store:
    if deadly:
        written = []
        @event.listens_for(store._engine, "after_cursor_execute")
        def die(connection, cursor, statement, *_):
            written.append(statement.startswith("INSERT"))
            if sum(written) == deadly:
                os.kill(os.getpid(), signal.SIGKILL)
        @event.listens_for(store._engine, "commit")
        def die_before_commit(connection):
            if any(written) and deadly == 999:
                os.kill(os.getpid(), signal.SIGKILL)
    for build in range(first, last):
        assert store.add(Run("1n-veth", "trending", build, moment, moment), results)
"""


def adding(path: Path, first: int, last: int, deadly: int = 0) -> subprocess.Popen[bytes]:
    """Start a process that adds the builds from first to last, and dies at an INSERT if it is deadly."""
    return subprocess.Popen(
        [sys.executable, "-c", ADD, str(path), str(first), str(last), str(deadly)], stderr=subprocess.PIPE
    )


def add(path: Path, build: int) -> None:
    """Add in this process what the others add."""
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    keys = [TraceKey.of(testbed="1n-veth", test=f"t{n}") for n in range(50)]
    results = [Result(key, "pps", Better.HIGHER, Status.PASS, (1.0,), 1.0, details={"a": 1}) for key in keys]
    with Store.open(path) as store:
        assert store.add(Run("1n-veth", "trending", build, moment, moment), results)


@pytest.mark.parametrize("deadly", [*range(1, 9), AT_COMMIT])
def test_run_that_was_killed_half_way_was_never_there(tmp_path: Path, deadly: int) -> None:
    """At the run, the traces, the results, the details, each table of the tiles, just before the commit."""
    path = tmp_path / "store.sqlite"
    killed = adding(path, 1, 2, deadly)
    killed.communicate()

    assert -signal.SIGKILL == killed.returncode
    with Store.open(path) as store:
        assert [] == store.runs("1n-veth")
    add(path, 1)
    with Store.open(path) as store:
        assert [1] == [run.build for run in store.runs("1n-veth")]
        assert 50 == len(store.series("1n-veth"))


@pytest.mark.parametrize("deadly", [1, 2, 3, 4, AT_COMMIT])
def test_killed_run_leaves_earlier_runs_as_they_were(tmp_path: Path, deadly: int) -> None:
    path = tmp_path / "store.sqlite"
    add(path, 1)
    killed = adding(path, 2, 3, deadly)
    killed.communicate()

    assert -signal.SIGKILL == killed.returncode
    with Store.open(path) as store:
        assert [1] == [run.build for run in store.runs("1n-veth")]
        assert {1} == {len(series.samples) for series in store.series("1n-veth")}


def test_processes_that_create_and_add_at_once_all_succeed(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    processes = [adding(path, 10 * n, 10 * n + 10) for n in range(4)]

    told = [process.communicate()[1].decode() for process in processes]

    assert ["", "", "", ""] == told
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
