"""The store on a real PostgreSQL server does what it does on SQLite, and outlives the server's restart."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from perftrend.errors import StoreError
from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.store import Store, maintenance
from perftrend.store.claims import Leadership
from perftrend.store.connection import engine_of, patience
from perftrend.store.schema import metadata
from perftrend.store.verdicts import PatchTest, PatchTrace
from tests.integration.servers import postgresql
from tests.integration.servers.listening import until
from tests.integration.servers.stores_on_postgresql import ADDRESS

CHECKOUT = Path(__file__).resolve().parents[2]
UNIT_TESTS = Path("tests") / "unit" / "store"
DIFFERENT = (
    "alerts", "test_archives.py", "test_changes.py", "test_clusterings.py", "test_clusters.py",
    "test_executions.py", "test_grants.py", "test_ingestions.py", "test_invalidations.py",
    "test_migrations.py", "test_parquet.py", "test_patch_tests.py", "test_requests.py", "test_retention.py",
    "test_run_verdicts.py", "test_sessions.py", "test_shortcuts.py", "test_store.py", "test_views.py",
    "test_renames.py::test_history_continues_under_the_new_name_until_it_is_undone",
    "test_renames.py::test_overrides_and_findings_follow_the_rename",
    "test_renames.py::test_points_of_coarser_scales_have_the_old_name",
    "tiles/test_tiles.py::test_values_keep_all_their_digits",
    "tiles/test_tiles.py::test_testbeds_are_read_side_by_side",
    "tiles/test_tiles.py::test_tables_that_are_gone_are_made_again",
    "tiles/test_tiles.py::test_runs_that_several_writers_store_at_once_all_have_their_columns",
    "tiles/test_tiles.py::test_reader_never_sees_half_of_what_a_writer_does",
)  # fmt: skip
"""Tests of modules that lock rows, set savepoints, migrate, or send PostgreSQL other SQL than SQLite.

Of tiles only those with several transactions, as the others are about arithmetic; of renames only those
that write to all the tables, as the others send the same SQL.
"""
IMPATIENT = (
    "?connect_timeout=2&tcp_user_timeout=2000&keepalives_idle=1&keepalives_interval=1&keepalives_count=2"
)
"""Lets TCP give up a server after seconds, where half a minute is the default."""
NOTICED = "timed out|timeout expired"
TCP_OPTIONS = (
    socket.TCP_USER_TIMEOUT, socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT
)  # fmt: skip
MOMENT = datetime(2026, 1, 2, tzinfo=UTC)
PATCH_TEST = PatchTest("perftest", 7, "2n-clx", "a" * 40, "b" * 40, MOMENT, MOMENT, 1, archive="/7")
PATCH_TRACE = PatchTrace("ip4", "pps", Better.HIGHER, "no difference", ((0.1,),), ((0.2,),))


def run_of(build: int) -> Run:
    started = MOMENT + timedelta(days=build)
    return Run("2n-clx", "nightly", build, started, started, {"device": f"{build:06x}c"})


def results_of(value: float, tests: int = 40) -> list[Result]:
    keys = [TraceKey.of(testbed="2n-clx", test=f"t{n:03}", metric="mrr") for n in range(tests)]
    return [Result(key, "pps", Better.HIGHER, Status.PASS, (value,), value) for key in keys]


@pytest.fixture
def url(postgresql_server: postgresql.Server) -> str:
    return postgresql_server.database()


@pytest.mark.slow
def test_what_holds_on_sqlite_holds_on_postgresql(url: str, *, thorough: bool) -> None:
    tests = ["--thorough", str(UNIT_TESTS)] if thorough else [str(UNIT_TESTS / each) for each in DIFFERENT]
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist",
        "-p", "tests.integration.servers.stores_on_postgresql", *tests,
    ]  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    path = os.pathsep.join(map(str, (CHECKOUT, CHECKOUT / "resources")))
    ran = subprocess.run(
        command, cwd=CHECKOUT, env={**environment, ADDRESS: url, "PYTHONPATH": path},
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert 0 == ran.returncode, ran.stdout + ran.stderr


def test_store_moves_there_and_back_with_everything(url: str, tmp_path: Path) -> None:
    place, saved, again = (str(tmp_path / f"{name}.sqlite") for name in ("here", "saved", "again"))
    with Store.open(place) as store:
        for build in range(1, 31):
            store.add(run_of(build), results_of(float(build)))
        key = store.short_urls.save("testbed=2n-clx", user="me")
        store.invalidations.add(run_of(5), "a fan failed", author="me")
        store.patch_tests.add(PATCH_TEST, [PATCH_TRACE])
        number = store.shortcuts.save(["a", "b"], user="me")
        deleted = store.annotations.add("a" * 40, "wrong", user="me")
        store.annotations.delete(deleted.identity, version=deleted.version, user="me")
    before = rows_of(place)

    assert sum(map(len, before.values())) == sum(maintenance.move(place, url).values())
    assert before == rows_of(url)
    with Store.open(url) as store:
        assert store.add(run_of(31), results_of(31.0, tests=41))
        assert deleted.identity < store.annotations.add("a" * 40, "right", user="me").identity
        store.invalidations.remove(run_of(5), author="me")
        assert [*range(1, 32)] == store.series("2n-clx")[0].samples.tolist()
        store.invalidations.add(run_of(6), "a fan failed", author="me")
        assert "testbed=2n-clx" == store.short_urls.query(key)
        assert number != store.shortcuts.save(["c"], user="me")
        assert not store.patch_tests.add(PATCH_TEST, [PATCH_TRACE])
        assert store.patch_tests.add(replace(PATCH_TEST, build=8), [PATCH_TRACE])
        assert [PATCH_TRACE] == store.patch_tests.traces(PATCH_TEST)
    with pytest.raises(StoreError, match="it is not empty"):
        maintenance.move(place, url)

    maintenance.backup(url, Path(saved))
    maintenance.restore(Path(saved), again)
    assert rows_of(url) == rows_of(saved) == rows_of(again)
    assert () == maintenance.check(url).faults == maintenance.check(again).faults


def test_backup_is_of_one_moment_while_jobs_write(url: str, tmp_path: Path) -> None:
    """Whole runs are in it, and their tiles, however many come while it is made."""
    with Store.open(url) as store:
        for build in range(1, 60):
            store.add(run_of(build), results_of(1.0))
    ended = threading.Event()

    def write() -> None:
        with Store.open(url) as store:
            for build in range(100, 1000):
                if ended.is_set():
                    return
                store.add(run_of(build), results_of(1.0))

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            maintenance.backup(url, tmp_path / "copy.sqlite")
        finally:
            ended.set()
        writing.result()
    checked = maintenance.check(tmp_path / "copy.sqlite")
    assert () == checked.faults
    assert 40 * checked.runs == checked.results
    assert 0 == checked.runs_without_tiles


def rows_of(place: str) -> dict[str, list[str]]:
    """Return all rows of a store, by the table."""
    engine = engine_of(place)
    with engine.connect() as opened:
        rows = {
            table.name: sorted(map(repr, opened.execute(sa.select(table)).all()))
            for table in metadata.sorted_tables
        }
    engine.dispose()
    return rows


def test_processes_that_create_a_store_at_once_all_succeed(url: str) -> None:
    script = "import sys; from perftrend.store import Store; Store.open(sys.argv[1]).close()"
    processes = [
        subprocess.Popen([sys.executable, "-c", script, url], stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]

    assert [""] * 4 == [process.communicate(timeout=120)[1] for process in processes]


def test_writers_of_the_same_runs_store_each_once(url: str) -> None:
    """Each with its own order of the traces: they would wait for each other crosswise."""
    Store.open(url).close()

    def write(writer: int) -> list[bool]:
        results = results_of(1.0)
        with Store.open(url) as store:
            return [store.add(run_of(n), results if writer % 2 else results[::-1]) for n in range(10)]

    with ThreadPoolExecutor(4) as pool:
        added = list(pool.map(write, range(4)))

    assert [1] * 10 == [sum(each) for each in zip(*added, strict=True)]
    with Store.open(url) as store:
        assert list(range(10)) == [run.build for run in store.runs("2n-clx")]
        axis = store.tiles.axis("2n-clx")
        assert 10 == axis.whole == len(axis.columns)


def test_store_works_again_when_the_server_is_back(postgresql_server: postgresql.Server, url: str) -> None:
    with Store.open(url) as store:
        store.add(run_of(1), results_of(1.0))
        postgresql_server.stop()
        try:
            with pytest.raises(StoreError) as gone:
                store.runs("2n-clx")
            with pytest.raises(StoreError):
                store.add(run_of(2), results_of(2.0))
        finally:
            postgresql_server.start()

        assert "\n" not in str(gone.value)
        assert store.add(run_of(2), results_of(2.0))
        assert [1, 2] == [run.build for run in store.runs("2n-clx")]


def test_server_that_went_away_in_a_transaction_kept_none_of_it(
    postgresql_server: postgresql.Server, url: str
) -> None:
    def going_away() -> Iterator[tuple[Run, list[Result]]]:
        yield run_of(1), results_of(1.0)
        postgresql_server.stop()
        yield run_of(2), results_of(2.0)

    with Store.open(url) as store:
        try:
            with pytest.raises(StoreError):
                store.add_all(going_away())
        finally:
            postgresql_server.start()

        assert [] == store.runs("2n-clx")
        assert 2 == store.add_all((run_of(n), results_of(n)) for n in (1, 2))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"password": "guessed-it"}, "password authentication failed"),
        ({"database": "missing"}, 'database "missing" does not exist'),
        ({"user": "somebody"}, "authentication failed"),
    ],
)
def test_what_is_refused_is_told_in_one_line(
    postgresql_server: postgresql.Server, wrong: dict[str, str], told: str
) -> None:
    with pytest.raises(StoreError) as refused:
        Store.open(postgresql_server.url(**wrong))

    assert told in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not {"guessed-it", postgresql.PASSWORD} & set(
        str(refused.value).replace(":", " ").replace("@", " ").split()
    )


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.usefixtures("postgresql_server")
def test_server_that_vanishes_without_a_word_is_noticed(
    require: Callable[[object, str], None], *, thorough: bool
) -> None:
    """By TCP, as nothing else sets a limit; without that it takes a quarter of an hour, or hours."""
    for program in ("unshare", "ip", "nft"):
        require(shutil.which(program), f"needs {program}")
    path = os.pathsep.join(map(str, (CHECKOUT, CHECKOUT / "resources")))
    ran = subprocess.run(
        ["unshare", "--net", sys.executable, "-m", "tests.integration.servers.vanishing",
         "" if thorough else IMPATIENT],
        cwd=CHECKOUT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert 0 == ran.returncode, ran.stderr
    outcome = json.loads(ran.stdout)

    assert re.search(NOTICED, outcome["asks"]), outcome
    assert re.search(NOTICED, outcome["waits"]), outcome
    assert [] == outcome["back"]


def test_tcp_gives_up_a_server_that_vanished_after_half_a_minute(url: str) -> None:
    engine = engine_of(url)
    with engine.connect() as connection:
        driver = connection.connection.driver_connection
        assert driver is not None
        with socket.socket(fileno=os.dup(driver.fileno())) as tcp:
            options = [tcp.getsockopt(socket.IPPROTO_TCP, each) for each in TCP_OPTIONS]
            is_checked = tcp.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    engine.dispose()

    assert [30_000, 30, 10, 3] == options
    assert is_checked


LEADS = """
import sys, time
from perftrend.store import Store
with Store.open(sys.argv[1]) as store:
    leadership = store.leadership("listener")
    while not leadership.is_held():
        time.sleep(0.05)
    print("leads", flush=True)
    time.sleep(600)
"""


@contextmanager
def role(store: Store, name: str) -> Iterator[Leadership]:
    leadership = store.leadership(name)
    assert leadership
    yield leadership
    leadership.release()


def test_role_is_of_one_process_until_it_is_killed(url: str) -> None:
    with (
        Store.open(url) as store,
        role(store, "listener") as mine,
        role(store, "watcher") as other,
        subprocess.Popen([sys.executable, "-c", LEADS, url], stdout=subprocess.PIPE, text=True) as process,
    ):
        try:
            assert process.stdout
            assert "leads" == process.stdout.readline().strip()
            assert (False, True) == (mine.is_held(), other.is_held())
            process.send_signal(signal.SIGKILL)

            until(mine.is_held)

            assert mine.is_held()
        finally:
            process.kill()


def test_server_has_nothing_to_complain_about(url: str) -> None:
    engine, complaints = engine_of(url), []
    sa.event.listen(engine, "connect", lambda made, _: made.add_notice_handler(complaints.append))
    leadership = Leadership(engine, "serving")

    assert leadership.is_held()
    assert leadership.is_held()
    leadership.release()
    engine.dispose()
    assert [] == [each.message_primary for each in complaints]


def test_role_is_lost_with_the_server_and_claimed_again(
    postgresql_server: postgresql.Server, url: str
) -> None:
    with Store.open(url) as store, role(store, "listener") as leadership:
        assert leadership.is_held()
        postgresql_server.stop()
        try:
            for _ in range(2):
                with pytest.raises(StoreError):
                    leadership.is_held()
        finally:
            postgresql_server.start()

        assert leadership.is_held()


def interrupt(gen: Generator[Any, Any, Any], _: float) -> Generator[Any, Any, Any]:
    """Interrupt an operation of psycopg when it has sent its query."""
    try:
        yield next(gen)
    except StopIteration as done:
        return done.value
    raise KeyboardInterrupt


def test_interruption_of_a_query_ends_the_job(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection cannot be reset while the query runs, and that error must not hide the interruption."""
    with Store.open(url) as store:
        with monkeypatch.context() as patch, patience(60.0):
            patch.setattr("perftrend.store.postgresql._until", interrupt)
            with pytest.raises(KeyboardInterrupt) as interruption:
                store.requests.list_open()
        assert "can't change 'autocommit'" in str(interruption.value.__cause__)
        assert [] == store.requests.list_open()


def test_server_that_is_not_there_is_told_in_one_line() -> None:
    with pytest.raises(StoreError, match="refused") as refused:
        Store.open(f"postgresql://me:{postgresql.PASSWORD}@127.0.0.1:9/x")

    assert "\n" not in str(refused.value)
    assert postgresql.PASSWORD not in str(refused.value)


def test_database_of_another_program_is_left_alone(url: str) -> None:
    engine = engine_of(url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE songs (title text)"))
    engine.dispose()

    with pytest.raises(StoreError, match="tables of another program, such as songs"):
        Store.open(url)


def test_values_and_times_keep_all_their_digits(url: str) -> None:
    run = replace(run_of(1), started=MOMENT.replace(microsecond=123456))
    with Store.open(url) as store:
        store.add(run, results_of(0.1 + 0.2, tests=1))

        assert [run] == store.runs("2n-clx")
        assert results_of(0.1 + 0.2, tests=1) == store.results(run)
