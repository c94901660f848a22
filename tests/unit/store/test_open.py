"""Stores that are new, foreign, too new, damaged, locked away or out of space."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import event

from perftrend.errors import StoreError
from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.store import Store
from perftrend.store.schema import HEAD
from perftrend.store.schema_version import MIGRATIONS, VERSION_TABLE

pytestmark = pytest.mark.sqlite

MOMENT = datetime(2026, 1, 2, tzinfo=UTC)
RUN = Run("1n-veth", "trending", 1, MOMENT, MOMENT)


def results(count: int) -> list[Result]:
    return [
        Result(
            TraceKey.of(testbed="1n-veth", test=f"t{n}"), "pps", Better.HIGHER, Status.PASS, (1.0,) * 10, 1.0
        )
        for n in range(count)
    ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


def refusal(place: str | Path) -> str:
    with pytest.raises(StoreError) as refused:
        Store.open(place)
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith("store ")
    return str(refused.value)


def test_newest_migration_is_the_one_that_the_schema_describes() -> None:
    assert [HEAD] == ScriptDirectory(str(MIGRATIONS)).get_heads()


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}"])
def test_file_that_is_not_there_is_not_made_where_none_is_to_be(path: Path, form: str) -> None:
    place = form.format(path)
    assert not Store.may_be_there(place)
    with pytest.raises(StoreError, match="the file does not exist"):
        Store.open(place, create=False)
    assert not path.exists()

    Store.open(place).close()

    assert Store.may_be_there(place)
    Store.open(place, create=False).close()


def test_store_is_the_same_when_opened_again(path: Path) -> None:
    with Store.open(path) as store:
        store.add(RUN, results(1))
    with Store.open(f"sqlite:///{path}") as store:
        assert [RUN] == store.runs("1n-veth")


def test_readers_and_a_writer_do_not_wait_for_each_other(path: Path) -> None:
    Store.open(path).close()
    with closing(sqlite3.connect(path)) as connection:
        assert "wal" == connection.execute("PRAGMA journal_mode").fetchone()[0]


def test_store_of_a_newer_version_is_refused(path: Path) -> None:
    Store.open(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")  # noqa: S608 - a name of ours

    assert refusal(path).endswith(
        f"{path}: it has version 9999, newer than {HEAD} of this perftrend; upgrade perftrend"
    )


def test_database_of_another_program_is_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE songs (title)")

    assert "it contains tables of another program, such as songs" in refusal(path)
    with closing(sqlite3.connect(path)) as connection:
        assert [("songs",)] == connection.execute("SELECT name FROM sqlite_master").fetchall()


def test_file_that_is_no_database_is_left_alone(path: Path) -> None:
    content = b"these are my notes, and nobody shall overwrite them\n" * 100
    path.write_bytes(content)

    assert "this is not a database; name another file" in refusal(path)
    assert content == path.read_bytes()


def test_damaged_database_is_refused(path: Path) -> None:
    with Store.open(path) as store:
        store.add(RUN, results(300))
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 4000)

    assert "damaged" in refusal(path)


def test_missing_folder_is_told(tmp_path: Path) -> None:
    assert "does its folder exist" in refusal(tmp_path / "missing" / "store.sqlite")


def test_folder_is_no_store(tmp_path: Path) -> None:
    assert "it cannot be opened" in refusal(tmp_path)


@pytest.mark.parametrize("place", ["oracle9://host/x", "postgresql+nothing://me:secret@host/x", "://"])
def test_unknown_kind_of_database_is_told_without_its_password(place: str) -> None:
    assert "secret" not in refusal(place)


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """Make a folder that an ordinary user could reach: pytest's own are for their owner only."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def ordinary_user() -> Iterator[None]:
    """Step down if we are root, who may write everywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    yield
    os.seteuid(0)


@pytest.fixture
def locked_away(open_to_all: Path) -> Path:
    """Make a store that its reader may not write."""
    path = open_to_all / "store.sqlite"
    with Store.open(path) as store:
        store.add(RUN, results(1))
    path.chmod(0o444)
    open_to_all.chmod(0o555)
    return path


@pytest.mark.usefixtures("ordinary_user")
def test_folder_that_may_not_be_written_is_told(locked_away: Path) -> None:
    assert "may this user write" in refusal(locked_away.parent / "new.sqlite")


def test_store_that_may_not_be_written_is_told(locked_away: Path, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("ordinary_user")

    assert "may this user write" in refusal(locked_away)


def test_full_disk_leaves_the_store_as_it_was(path: Path) -> None:
    with Store.open(path) as store:

        def limit(connection: sqlite3.Connection, *_: object) -> None:
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages + 4}")

        store._engine.dispose()
        event.listen(store._engine, "connect", limit)

        with pytest.raises(StoreError, match="the disk is full; free some space and run again"):
            store.add(RUN, results(2_000))
        assert [] == store.runs("1n-veth")
        assert [] == store.series("1n-veth")
        assert store.add(RUN, results(1))
