"""The store's version is checked without touching its file."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from perftrend.doctor import storage
from perftrend.doctor.check_results import CheckResult, Severity
from perftrend.settings import Settings
from perftrend.store import Store
from perftrend.store.schema import HEAD
from tests.conftest import Require


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "perf trend.sqlite"
    Store.open(place).close()
    return place


def check(place: object) -> dict[str, CheckResult]:
    return {found.what: found for found in storage.check_store(Settings(store=str(place)))}


def set_version(path: Path, version: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE perftrend_version SET version_num = ?", (version,))


def test_newest_store_is_ok(path: Path) -> None:
    found = check(path)

    assert {Severity.OK} == {each.severity for each in found.values()}
    assert found["version"].text.endswith(f"has version {HEAD}, the newest")


def test_older_store_is_a_warning(path: Path) -> None:
    set_version(path, "0003")

    found = check(path)["version"]

    assert Severity.WARNING is found.severity
    assert f"./run store migrate --store '{path}'" == found.fix


def test_newer_store_is_a_fault(path: Path) -> None:
    set_version(path, "9999")

    found = check(path)["version"]

    assert Severity.FAULT is found.severity
    assert "newer than" in found.text
    assert found.fix.startswith("git pull")


def test_other_programs_database_is_a_fault_and_stays_as_it_is(tmp_path: Path) -> None:
    place = tmp_path / "browser.sqlite"
    with closing(sqlite3.connect(place)) as connection, connection:
        connection.execute("CREATE TABLE cookies (name TEXT)")
    before = hashlib.sha256(place.read_bytes()).hexdigest()

    found = check(place)["version"]

    assert (Severity.FAULT, "set store to another one") == (found.severity, found.fix)
    assert before == hashlib.sha256(place.read_bytes()).hexdigest()


@pytest.mark.parametrize("version", [HEAD, "0003", "9999"])
def test_check_creates_no_file_and_changes_none(path: Path, version: str) -> None:
    set_version(path, version)
    path.chmod(0o400)
    before = path.read_bytes()

    check(path)

    assert [path.name] == [each.name for each in path.parent.iterdir()]
    assert before == path.read_bytes()


def test_version_in_the_wal_of_another_process_is_seen(path: Path) -> None:
    with Store.open(path), closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE perftrend_version SET version_num = '9999'")
        connection.commit()

        assert Severity.FAULT is check(path)["version"].severity


def test_store_that_does_not_exist_is_not_created(tmp_path: Path) -> None:
    found = check(tmp_path / "new.sqlite")["version"]

    assert Severity.OK is found.severity
    assert "does not exist yet" in found.text
    assert [] == [each.name for each in tmp_path.iterdir()]


def test_file_that_is_no_database_is_a_fault(tmp_path: Path) -> None:
    place = tmp_path / "notes.txt"
    place.write_text("notes\n" * 1000)

    found = check(place)["version"]

    assert f"store {place}: this is not a database; name another file" == found.text
    assert "set store to another one" == found.fix


def test_empty_file_is_an_empty_store(tmp_path: Path) -> None:
    (tmp_path / "x").touch()

    assert Severity.OK is check(tmp_path / "x")["version"].severity


def test_store_of_another_user_is_a_fault(path: Path, require: Require) -> None:
    require(os.geteuid() == 0, "needs root")
    for each in path.parents:
        if each.is_relative_to(tempfile.gettempdir()) and each != Path(tempfile.gettempdir()):
            each.chmod(0o755)
    os.seteuid(12345)
    try:
        found = check(path)["rights"]
    finally:
        os.seteuid(0)

    assert (Severity.FAULT, f"sudo chown 12345 '{path}'*") == (found.severity, found.fix)


def test_unknown_database_is_a_fault_without_its_password() -> None:
    found = check("mysql://me:sesame@db.example.org/x")["version"]

    assert Severity.FAULT is found.severity
    assert "sesame" not in found.text + found.fix


def test_server_that_does_not_answer_is_a_fault_without_its_password() -> None:
    found = check("postgresql://me:sesame@127.0.0.1:9/x")["version"]

    assert (Severity.FAULT, "psql postgresql://me@127.0.0.1:9/x") == (found.severity, found.fix)
    assert "sesame" not in found.text


def test_missing_driver_is_a_fault_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    found = check("postgresql://db.example.org/x")["driver"]

    assert (Severity.FAULT, "./run --with postgresql") == (found.severity, found.fix)
