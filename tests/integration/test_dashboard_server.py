"""The dashboard as a server: with clients that mean no good, when it is stopped, and without its database."""

from __future__ import annotations

import signal
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
import requests

from perftrend.dashboard import static
from tests.integration.servers import postgresql
from tests.integration.servers.dashboard import SIGNING_IN, Dashboard, fill

LIMIT_S = 120
IMPATIENT = {**SIGNING_IN, "request_timeout_s": 1}
HURRIED = {**SIGNING_IN, "database_timeout_s": 2}
STOPPED_SOON = {**SIGNING_IN, "database_timeout_s": 60, "stop_timeout_s": 1}
READERS = 60
"""More than the threads that answer, so that some have to wait for one."""
NOT_IN_TIME = "the database cannot be reached or is too slow; nothing is lost, try again in a moment"
NOT_SAVED = "your change was not saved: the database cannot be written or is too slow; try again in a moment"
HUNDRED_MB = 100 * 1024**2


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("store") / "store.sqlite"
    fill(place)
    return place


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory, store: Path) -> Iterator[Dashboard]:
    """Run a dashboard that waits for a second."""
    folder = tmp_path_factory.mktemp("impatient")
    with Dashboard(folder, settings=IMPATIENT, store=str(store)) as running:
        yield running


def connected(dashboard: Dashboard) -> socket.socket:
    parts = urlsplit(dashboard.url)
    return socket.create_connection((parts.hostname, parts.port), timeout=LIMIT_S)


def head(method: str, path: str, *headers: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()


def until_cut_off(connection: socket.socket) -> bytes:
    """Return what a server says until it ends the connection."""
    said = b""
    try:
        while part := connection.recv(65536):
            said += part
    except ConnectionError:
        pass
    return said


def trickle(connection: socket.socket, byte: bytes) -> None:
    """Send bytes until nobody takes them any more."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        try:
            connection.sendall(byte)
        except ConnectionError:
            return
        time.sleep(0.05)
    pytest.fail("the client was never cut off")


def test_client_that_says_nothing_is_cut_off(impatient: Dashboard) -> None:
    with connected(impatient) as connection:
        assert b"" == until_cut_off(connection)


def test_client_that_never_ends_its_headers_is_cut_off(impatient: Dashboard) -> None:
    with connected(impatient) as connection:
        connection.sendall(b"GET /runs HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        trickle(connection, b"x")


def test_client_that_never_ends_its_body_is_cut_off(impatient: Dashboard) -> None:
    with connected(impatient) as connection:
        connection.sendall(
            head("POST", "/annotations", "Content-Type: application/json", "Content-Length: 999")
        )
        trickle(connection, b" ")


def test_client_that_takes_no_answer_is_cut_off(impatient: Dashboard) -> None:
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        parts = urlsplit(impatient.url)
        connection.settimeout(LIMIT_S)
        connection.connect((parts.hostname, parts.port))
        connection.sendall(head("GET", static.plotly_url()))
        until(lambda: any("did not receive its response" in line for line in impatient.said))

        assert len(until_cut_off(connection)) < 4_000_000


def test_client_that_takes_its_time_between_requests_is_served(impatient: Dashboard) -> None:
    with connected(impatient) as connection:
        for _ in range(2):
            connection.sendall(head("GET", "/healthz"))
            # Headers and body may come one after the other.
            said = b""
            while b"}" not in said and (part := connection.recv(65536)):
                said += part
            assert said.startswith(b"HTTP/1.1 200 ")
            time.sleep(1.2)


@pytest.mark.parametrize("length", ["Transfer-Encoding: chunked", f"Content-Length: {HUNDRED_MB}"])
@pytest.mark.parametrize("path", ["/annotations", "/nowhere"])
def test_body_of_100_megabytes_is_refused_early(impatient: Dashboard, path: str, length: str) -> None:
    part = b"10000\r\n" + b"x" * 65536 + b"\r\n" if "chunked" in length else b"x" * 65536
    sent = 0
    with connected(impatient) as connection:
        connection.sendall(
            head("POST", path, "X-Forwarded-User: ann", "Content-Type: application/json", length)
        )
        try:
            while sent < HUNDRED_MB:
                connection.sendall(part)
                sent += len(part)
        except ConnectionError:
            pass

    assert sent < HUNDRED_MB / 2


def test_what_is_no_http_does_no_harm(impatient: Dashboard) -> None:
    with connected(impatient) as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")
        assert until_cut_off(connection).startswith(b"HTTP/1.1 400 ")

    assert 200 == requests.get(f"{impatient.url}/healthz", timeout=LIMIT_S).status_code


def test_request_under_way_is_finished_when_it_is_stopped(tmp_path: Path, store: Path) -> None:
    with Dashboard(tmp_path, store=str(store)) as dashboard, connected(dashboard) as connection:
        begin_request(connection, dashboard)
        dashboard.signal(signal.SIGTERM)
        until(lambda: not is_open(dashboard))
        connection.sendall(b"}")

        answer = until_cut_off(connection)

        assert answer.startswith(b"HTTP/1.1 422 ")
        assert b'{"error":' in answer
        assert 0 == dashboard.wait()
        assert "perftrend: stopped" == dashboard.said[-1]


def test_request_that_never_ends_is_not_waited_for(tmp_path: Path, store: Path) -> None:
    settings = {**SIGNING_IN, "stop_timeout_s": 1}
    dashboard = Dashboard(tmp_path, settings=settings, store=str(store))
    with dashboard, connected(dashboard) as connection:
        begin_request(connection, dashboard)

        assert 0 == dashboard.stop()


def begin_request(connection: socket.socket, dashboard: Dashboard) -> None:
    """Send all of a request but its last byte; an endpoint waits for that now."""
    token = dashboard.new_token("slow", role="editor")
    connection.sendall(
        head("POST", "/annotations", f"Authorization: Bearer {token}", "Content-Type: application/json",
             "Accept: application/json", "Content-Length: 2", "Expect: 100-continue")
    )  # fmt: skip
    assert connection.recv(65536).startswith(b"HTTP/1.1 100 ")
    connection.sendall(b"{")


def test_address_in_use_is_told_in_one_line(tmp_path: Path, impatient: Dashboard, store: Path) -> None:
    address = urlsplit(impatient.url).netloc
    second = Dashboard(tmp_path, store=str(store))

    code, said = second.refused(address)

    assert 3 == code
    assert [f"dashboard.address is {address}; the dashboard cannot listen there"] == [
        line.removeprefix("perftrend: ").split(" (")[0] for line in said
    ]


def test_nobody_else_reaches_it_where_nobody_can_sign_in(tmp_path: Path, store: Path) -> None:
    code, said = Dashboard(tmp_path, settings={}, store=str(store)).refused("0.0.0.0:0")

    assert 2 == code
    (line,) = said
    assert "users cannot sign in" in line


@pytest.fixture(scope="module")
def hurried(
    tmp_path_factory: pytest.TempPathFactory, postgresql_server: postgresql.Server
) -> Iterator[Dashboard]:
    """Run a dashboard on PostgreSQL whose requests have two seconds for it."""
    place = postgresql_server.database()
    fill(place)
    with Dashboard(tmp_path_factory.mktemp("hurried"), settings=HURRIED, store=place) as dashboard:
        yield dashboard


@contextmanager
def locked(dashboard: Dashboard) -> Iterator[None]:
    """Keep a table locked, as a repair does that somebody has forgotten."""
    with psycopg.connect(dashboard.store) as connection:
        connection.execute("LOCK TABLE runs, annotations IN ACCESS EXCLUSIVE MODE")
        yield


@contextmanager
def frozen(server: postgresql.Server) -> Iterator[None]:
    """Let all of a server hang: it holds its connections, takes new ones, and says nothing."""
    server.freeze()
    try:
        yield
    finally:
        server.thaw()


def test_table_that_is_locked_is_told_in_time(hurried: Dashboard) -> None:
    token = hurried.new_token("writer", role="editor")
    with locked(hurried):
        away = [runs(hurried, last=1), annotate(hurried, token)]
    back = [runs(hurried, last=1), annotate(hurried, token)]

    assert [503, 503, 200, 201] == [each.status_code for each in (*away, *back)]
    assert [NOT_IN_TIME, NOT_SAVED] == [each.json()["error"] for each in away]


def test_role_that_may_not_alter_tables_is_enough(
    tmp_path: Path, postgresql_server: postgresql.Server
) -> None:
    owner = postgresql_server.database()
    fill(owner)
    with psycopg.connect(owner) as connection:
        connection.execute(f"CREATE ROLE clerk LOGIN PASSWORD '{postgresql.PASSWORD}'")
        connection.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO clerk")
        connection.execute("GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO clerk")
    database = urlsplit(owner).path.removeprefix("/")
    place = postgresql_server.url(database, user="clerk")
    with psycopg.connect(place) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("ALTER TABLE runs ADD COLUMN other integer")

    with Dashboard(tmp_path, store=place) as dashboard:
        pages = [
            requests.get(dashboard.url + path, timeout=LIMIT_S)
            for path in ("/", "/runs", "/triage", "/alerts", "/clusters", "/compare", "/healthz")
        ]
        written = annotate(dashboard, dashboard.new_token("writer", role="editor"))
        with psycopg.connect(owner) as connection:
            connection.execute("UPDATE perftrend_version SET version_num = '0001'")
        code, said = Dashboard(tmp_path, store=place).refused("127.0.0.1:0")

    assert {200} == {page.status_code for page in pages}, [page.url for page in pages]
    assert 201 == written.status_code
    assert 3 == code
    assert "./run store migrate" in said[-1]


def test_server_that_hangs_is_told_in_time(hurried: Dashboard, postgresql_server: postgresql.Server) -> None:
    numbers = range(2, 2 + READERS)
    with frozen(postgresql_server), ThreadPoolExecutor(READERS) as readers:
        away = list(readers.map(lambda number: runs(hurried, last=number), numbers))
        health = requests.get(f"{hurried.url}/healthz", timeout=LIMIT_S)
    back = [runs(hurried, last=number) for number in numbers]
    health_of_both = [health, requests.get(f"{hurried.url}/healthz", timeout=LIMIT_S)]

    assert {503} == {each.status_code for each in away}
    assert {NOT_IN_TIME} == {each.json()["error"] for each in away}
    assert {200} == {each.status_code for each in back}
    assert [503, 200] == [each.status_code for each in health_of_both]
    assert not any("Traceback" in line or "traceback" in line for line in hurried.said)


def test_file_that_is_locked_is_read_and_not_written(tmp_path: Path) -> None:
    fill(tmp_path / "store.sqlite")
    with (
        Dashboard(tmp_path, settings=HURRIED) as dashboard,
        closing(sqlite3.connect(dashboard.store, isolation_level=None, timeout=LIMIT_S)) as other,
    ):
        token = dashboard.new_token("writer", role="editor")
        other.execute("BEGIN IMMEDIATE")
        written, read = annotate(dashboard, token), runs(dashboard, last=1)
        other.execute("ROLLBACK")
        again = annotate(dashboard, token)

        assert [503, 200, 201] == [each.status_code for each in (written, read, again)]
        assert written.json()["error"] == NOT_SAVED


def test_server_that_hangs_keeps_nobody_from_stopping(
    tmp_path: Path, postgresql_server: postgresql.Server
) -> None:
    place = postgresql_server.database()
    fill(place)
    with (
        Dashboard(tmp_path, settings=STOPPED_SOON, store=place) as dashboard,
        frozen(postgresql_server),
        ThreadPoolExecutor(1) as readers,
    ):
        reading = readers.submit(runs, dashboard, last=1)
        # By now what is done besides the requests waits, too.
        time.sleep(2)

        assert 0 == dashboard.stop()
        assert is_refused(reading)
    assert gave_up_waiting(dashboard), dashboard.said


def test_file_that_is_locked_keeps_nobody_from_stopping(tmp_path: Path) -> None:
    fill(tmp_path / "store.sqlite")
    with (
        Dashboard(tmp_path, settings=STOPPED_SOON) as dashboard,
        closing(sqlite3.connect(dashboard.store, isolation_level=None, timeout=LIMIT_S)) as other,
        ThreadPoolExecutor(1) as writers,
    ):
        token = dashboard.new_token("writer", role="editor")
        other.execute("BEGIN IMMEDIATE")
        writing = writers.submit(annotate, dashboard, token)
        time.sleep(2)

        assert 0 == dashboard.stop()
        assert gave_up_waiting(dashboard), dashboard.said
        assert is_refused(writing)
        other.execute("ROLLBACK")
        assert other.execute("SELECT count(*) FROM annotations WHERE text = 'slow'").fetchone() == (0,)


def gave_up_waiting(dashboard: Dashboard) -> bool:
    """Whether it stopped although something waited for the database."""
    return any("stopped without waiting any longer for: " in line for line in dashboard.said)


def is_refused(answer: Future[requests.Response]) -> bool:
    """Whether a request failed, by an answer or without one."""
    try:
        return answer.result(LIMIT_S).status_code >= HTTPStatus.INTERNAL_SERVER_ERROR
    except requests.ConnectionError:
        return True


def runs(dashboard: Dashboard, *, last: int) -> requests.Response:
    """Read something; what was asked before is known without the database."""
    return requests.get(f"{dashboard.url}/runs?format=json&last={last}", timeout=LIMIT_S)


def annotate(dashboard: Dashboard, token: str) -> requests.Response:
    """Write something, as a job."""
    return requests.post(
        f"{dashboard.url}/annotations",
        json={"commit": "0" * 40, "text": "slow"},
        headers={"Accept": "application/json", "Authorization": f"Bearer {token}"},
        timeout=LIMIT_S,
    )


def test_database_may_go_and_come_back(tmp_path: Path, postgresql_server: postgresql.Server) -> None:
    place = postgresql_server.database()
    fill(place)
    with Dashboard(tmp_path, store=place) as dashboard:
        asked = f"{dashboard.url}/runs?format=json"
        before = requests.get(asked, timeout=LIMIT_S)
        postgresql_server.stop()
        away = runs(dashboard, last=1)
        health = requests.get(f"{dashboard.url}/healthz", timeout=LIMIT_S)
        postgresql_server.start()
        after = requests.get(asked, timeout=LIMIT_S)

        assert [200, 503, 503, 200] == [each.status_code for each in (before, away, health, after)]
        assert {"error"} == set(away.json())
        assert before.json() == after.json()
        assert not any("sesame" in line for line in dashboard.said)


def is_open(dashboard: Dashboard) -> bool:
    """Whether somebody new is let in."""
    try:
        connected(dashboard).close()
    except ConnectionError:
        return False
    return True


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)
