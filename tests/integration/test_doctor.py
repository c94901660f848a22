"""./run doctor on a real PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

from perftrend.cli import doctor
from perftrend.settings import names, variable
from perftrend.store import Store
from tests.integration.servers import postgresql

Check = Callable[..., tuple[int, Mapping[str, dict[str, str]]]]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Check:
    """Return a function that checks with some settings and returns the exit code and results by subject."""
    for name in names():
        monkeypatch.delenv(variable(name), raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def run(**settings: Any) -> tuple[int, Mapping[str, dict[str, str]]]:
        file = tmp_path / "settings.yaml"
        file.touch(mode=0o600)
        file.write_text(json.dumps({"testbed": "simulated", **settings}))
        code = doctor.main(["--settings", str(file), "--json", "-"])
        results = json.loads(capsys.readouterr().out)["checks"]
        return code, {f"{each['area']} {each['what']}": each for each in results}

    return run


@pytest.fixture
def database(postgresql_server: postgresql.Server) -> str:
    return postgresql_server.database()


def tables(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
        assert row is not None
        return int(row[0])


def test_empty_database_is_ok_and_stays_empty(database: str, check: Check) -> None:
    code, found = check(store=database)

    assert (0, "ok") == (code, found["store version"]["severity"])
    assert 0 == tables(database)


@pytest.mark.parametrize(
    ("version", "code", "severity"), [(None, 0, "ok"), ("0003", 0, "warning"), ("9999", 3, "fault")]
)
def test_store_in_postgresql_has_a_version(
    database: str, check: Check, version: str | None, code: int, severity: str
) -> None:
    Store.open(database).close()
    if version:
        with psycopg.connect(database) as connection:
            connection.execute("UPDATE perftrend_version SET version_num = %s", (version,))
    before = tables(database)

    ended, found = check(store=database)

    assert (code, severity) == (ended, found["store version"]["severity"])
    assert before == tables(database)
    assert postgresql.PASSWORD not in json.dumps(found)


def test_user_who_may_only_read_is_a_fault(
    postgresql_server: postgresql.Server, database: str, check: Check, reader: str
) -> None:
    Store.open(database).close()
    with psycopg.connect(database) as connection:
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {reader}")
    name = database.rpartition("/")[2]

    code, found = check(store=postgresql_server.url(name, user=reader, password="x"))  # noqa: S106 - of a test

    assert (3, "fault") == (code, found["store rights"]["severity"])
    assert "may not insert, update, delete" in found["store rights"]["text"]


@pytest.fixture
def reader(postgresql_server: postgresql.Server) -> Iterator[str]:
    with psycopg.connect(postgresql_server.url(), autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS doctor_reader")
        connection.execute("CREATE ROLE doctor_reader LOGIN PASSWORD 'x'")
    return "doctor_reader"


def test_wrong_password_of_postgresql_is_a_fault(
    postgresql_server: postgresql.Server, database: str, check: Check
) -> None:
    name = database.rpartition("/")[2]

    code, found = check(store=postgresql_server.url(name, password="wrong-one"))  # noqa: S106 - of nothing

    assert (3, "fault") == (code, found["store version"]["severity"])
    assert "password authentication failed" in found["store version"]["text"]
    assert "wrong-one" not in json.dumps(found)
