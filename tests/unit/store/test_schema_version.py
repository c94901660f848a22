"""A store is inspected without creating, upgrading or changing it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from perftrend.errors import StoreError
from perftrend.store import Store
from perftrend.store.schema import HEAD
from perftrend.store.schema_version import StoreState, file_of, inspect


@pytest.mark.parametrize("version", [HEAD, "0001"])
def test_version_is_known_and_stays(tmp_path: Path, version: str) -> None:
    place = tmp_path / "a store.sqlite"
    Store.open(place).close()
    with closing(sqlite3.connect(place)) as connection, connection:
        connection.execute("UPDATE perftrend_version SET version_num = ?", (version,))
    before = place.read_bytes()

    assert StoreState(version) == inspect(str(place), timeout_s=10.0)
    assert before == place.read_bytes()
    assert [place] == list(tmp_path.iterdir())


def test_file_of_another_program_keeps_its_mode(tmp_path: Path) -> None:
    """Opening a store switches it to WAL."""
    place = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(place)) as connection, connection:
        connection.execute("CREATE TABLE t (x)")

    with pytest.raises(StoreError, match="tables of another program, such as t"):
        inspect(str(place), timeout_s=10.0)

    with closing(sqlite3.connect(place)) as connection:
        assert ("delete",) == connection.execute("PRAGMA journal_mode").fetchone()


def test_file_in_use_is_read_with_what_is_not_yet_in_it(tmp_path: Path) -> None:
    place = tmp_path / "store.sqlite"
    with Store.open(place), closing(sqlite3.connect(place)) as connection:
        connection.execute("UPDATE perftrend_version SET version_num = '0002'")
        connection.commit()

        assert StoreState("0002") == inspect(str(place), timeout_s=10.0)


def test_missing_file_is_an_error_and_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be opened"):
        inspect(str(tmp_path / "none"), timeout_s=10.0)

    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("place", "file"),
    [
        ("/srv/x.sqlite", Path("/srv/x.sqlite")),
        ("sqlite:////srv/x.sqlite", Path("/srv/x.sqlite")),
        ("postgresql://db.example.org/perftrend", None),
    ],
)
def test_only_sqlite_has_a_file(place: str, file: Path | None) -> None:
    assert file == file_of(place)
