"""./run rebuild-tiles rebuilds the missing tiles."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perftrend.cli import rebuild_tiles
from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.store import Store

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Make a store with a history that came newest first."""
    place = tmp_path / "store.sqlite"
    with Store.open(place) as store:
        for build in range(30, 0, -1):
            started = MOMENT + timedelta(days=build)
            key = TraceKey.of(testbed="2n-clx", test="ip4")
            result = Result(key, "pps", Better.HIGHER, Status.PASS, (1.0,), float(build))
            store.add(Run("2n-clx", "nightly", build, started, started), [result])
    return place


def whole(path: Path) -> int:
    with Store.open(path) as store:
        return store.tiles.axis("2n-clx").whole


def test_all_tiles_are_there_afterwards(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 30 > whole(path)

    assert 0 == rebuild_tiles.main(["--store", str(path)])
    assert 30 == whole(path)
    assert "2n-clx: 30 columns\n" == capsys.readouterr().out


@pytest.mark.parametrize("option", ["--delete-first", "--anew"])
def test_deleted_tiles_get_the_present_values(path: Path, option: str) -> None:
    rebuild_tiles.main(["--store", str(path)])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE results SET value = 7")

    assert 0 == rebuild_tiles.main(["--store", str(path), option])
    with Store.open(path) as store:
        assert [[7.0] * 30] == store.tiles.values(store.tiles.axis("2n-clx"), [1], range(30)).tolist()


def test_store_that_is_none_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "notes.sqlite"
    place.write_text("these are my notes\n" * 100)

    assert 3 == rebuild_tiles.main(["--store", str(place)])
    assert "this is not a database" in capsys.readouterr().err
