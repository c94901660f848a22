"""./run store: its output, its changes, and what it leaves unchanged."""

from __future__ import annotations

import getpass
import math
import os
import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config

from perftrend.cli import dashboard, store
from perftrend.errors import StoreError
from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.store import Store, connection, maintenance
from perftrend.store.schema import HEAD
from perftrend.store.schema_version import MIGRATIONS
from perftrend.store.verdicts import PatchTest, PatchTrace

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
PATCH_TEST = PatchTest("perftest", 5, "2n-clx", "a" * 40, "b" * 40, MOMENT, MOMENT, 1, change=1, patch_set=2)


def fill(place: Path, nights: int = 3) -> None:
    with Store.open(place) as made:
        for build in range(1, nights + 1):
            started = MOMENT + timedelta(days=build)
            key = TraceKey.of(testbed="2n-clx", test="ip4")
            result = Result(
                key, "pps", Better.HIGHER, Status.PASS, (0.1, 0.2), float(build), details={"é": [1]}
            )
            run = Run(
                "2n-clx", "nightly", build, started, started, {"device": f"{build:06x}"}, archive=f"/{build}"
            )
            made.add(run, [result])
        made.patch_tests.add(PATCH_TEST, [PatchTrace("ip4", "pps", Better.HIGHER, "", ((1.0,),), ((2.0,),))])
        made.short_urls.save("testbed=2n-clx", user="me")


def content(place: Path) -> list[str]:
    """Return all rows of an SQLite file as statements."""
    with closing(sqlite3.connect(place)) as opened:
        return sorted(opened.iterdump())


def older(place: Path) -> None:
    """Make a store of the form before the newest one."""
    engine = connection.engine_of(place)
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with connection.write_transaction(engine, tables=True) as opened:
        config.attributes["connection"] = opened
        command.upgrade(config, "0004")
    engine.dispose()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "perftrend.sqlite"


def test_sound_store_has_no_fault(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(place)

    assert 0 == store.main(["check"])
    held = "3 runs, 1 traces, 3 results and 1 per-patch tests"
    assert f"perftrend.sqlite: {held}; no fault\n" == capsys.readouterr().out


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("DELETE FROM traces", "row 1 of table trace_params belongs to a row of traces that does not exist"),
        ("DELETE FROM runs WHERE id = 2", "belongs to a row of runs that does not exist"),
        ("UPDATE results SET samples = x'0102' WHERE run_id = 1", "1 results have samples that are cut off"),
        ("UPDATE runs SET finished = '2020-01-01 00:00:00.000000' WHERE id = 3", "nightly/3 finished before"),
        ("DELETE FROM trace_params", "trace 1 has no parameters"),
    ],
)
def test_fault_is_told(place: Path, damage: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    fill(place)
    with closing(sqlite3.connect(place)) as opened, opened:
        opened.execute(damage)

    assert 3 == store.main(["check"])
    assert f"{told}" in capsys.readouterr().out


def test_damaged_file_is_told(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(place, 60)
    with closing(sqlite3.connect(place)) as opened:
        opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    damaged = bytearray(place.read_bytes())
    damaged[40_000:90_000] = bytes(50_000)
    place.write_bytes(damaged)

    assert 3 == store.main(["check"])
    assert 3 == store.main(["backup", "copy.sqlite"])
    assert not Path("copy.sqlite").exists()
    assert "Traceback" not in capsys.readouterr().err


def test_options_may_be_anywhere(place: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.sqlite"
    fill(place)

    assert 0 == store.main(["backup", "--store", str(place), str(copy)])
    assert copy.exists()


def test_backup_is_restored_with_everything(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(place)
    with Store.open(place):  # a dashboard that uses it meanwhile
        assert 0 == store.main(["backup", "copy.sqlite"])
    before = content(place)
    assert before == content(Path("copy.sqlite"))

    assert 0 == store.main(["restore", "copy.sqlite", "--store", "other.sqlite"])
    assert before == content(Path("other.sqlite"))
    assert "other.sqlite was restored from copy.sqlite\n" in capsys.readouterr().out
    with Store.open("other.sqlite") as made:
        assert 3 == len(made.runs("2n-clx"))
    left = {path.name for path in Path().iterdir()} - {"other.sqlite-wal", "other.sqlite-shm"}
    assert {"perftrend.sqlite", "copy.sqlite", "other.sqlite"} >= left - {
        f"{place.name}-wal",
        f"{place.name}-shm",
    }


@pytest.mark.parametrize("action", ["restore", "backup"])
def test_file_next_to_the_log_of_another_database_is_not_written(
    place: Path, action: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """SQLite would apply the log of the damaged store that was moved away to the restored one."""
    fill(place)
    store.main(["backup", "copy.sqlite"])
    Path("other.sqlite-wal").write_bytes(b"of another database")

    arguments = {"restore": ["copy.sqlite", "--store", "other.sqlite"], "backup": ["other.sqlite"]}
    assert 3 == store.main([action, *arguments[action]])
    assert not Path("other.sqlite").exists()
    assert b"of another database" == Path("other.sqlite-wal").read_bytes()
    assert "other.sqlite-wal belongs to another database" in capsys.readouterr().err


def test_backup_is_restored_into_an_empty_store(place: Path) -> None:
    fill(place)
    store.main(["backup", "copy.sqlite"])
    Store.open("empty.sqlite").close()

    assert 0 == store.main(["restore", "copy.sqlite", "--store", "empty.sqlite"])
    assert content(place) == content(Path("empty.sqlite"))


def test_numbers_of_deleted_rows_are_not_given_again_in_a_copy(place: Path) -> None:
    fill(place)
    with Store.open(place) as opened:
        kept, deleted = (opened.annotations.add("a" * 40, text, user="ann") for text in ("one", "two"))
        opened.annotations.delete(deleted.identity, version=deleted.version, user="ann")
    store.main(["backup", "copy.sqlite"])
    Store.open("empty.sqlite").close()
    store.main(["restore", "copy.sqlite", "--store", "empty.sqlite"])

    with Store.open("empty.sqlite") as restored:
        added = restored.annotations.add("a" * 40, "three", user="ann")
    assert kept.identity < deleted.identity < added.identity


def test_what_a_killed_backup_left_goes_with_the_next(place: Path) -> None:
    fill(place)
    left, of_another = Path(".copy.sqlite.999999999.unfinished-wal"), Path(".copy.sqlite.1.unfinished")
    left.write_text("x")
    of_another.write_text("x")

    assert 0 == store.main(["backup", "copy.sqlite"])
    assert not left.exists()
    assert of_another.exists()


def test_nothing_is_overwritten(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(place)
    store.main(["backup", "copy.sqlite"])
    before = content(place)

    assert 3 == store.main(["backup", "copy.sqlite"])
    assert "copy.sqlite exists; name a new file" in capsys.readouterr().err
    assert 3 == store.main(["restore", "copy.sqlite"])
    assert "it is not empty" in capsys.readouterr().err
    assert 3 == store.main(["migrate", "--to", str(place)])
    assert before == content(place)


def test_file_of_an_older_version_is_saved_as_it_is(place: Path) -> None:
    older(place)

    assert 0 == store.main(["backup", "copy.sqlite"])

    with closing(sqlite3.connect("copy.sqlite")) as copied, closing(sqlite3.connect(place)) as opened:
        [[version]] = copied.execute("SELECT version_num FROM perftrend_version").fetchall()
        assert [(version,)] == opened.execute("SELECT version_num FROM perftrend_version").fetchall()
    assert version < HEAD


def test_backup_of_an_older_version_is_restored(place: Path) -> None:
    older(Path("old.sqlite"))
    before = Path("old.sqlite").read_bytes()

    assert 0 == store.main(["restore", "old.sqlite"])
    assert 0 == store.main(["check"])
    assert before == Path("old.sqlite").read_bytes()


@pytest.mark.parametrize("text", ["", "notes\n" * 1000])
def test_file_that_is_no_backup_is_refused(
    place: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("notes").write_text(text)

    assert 3 == store.main(["restore", "notes"])
    assert 1 == capsys.readouterr().err.count("\n")
    assert ["notes"] == [path.name for path in Path().iterdir()]


def test_store_is_moved_with_everything(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(place)

    assert 0 == store.main(["migrate", "--to", "sqlite:///moved.sqlite", "--dry-run"])
    assert "rows would be copied from perftrend.sqlite to sqlite:///moved.sqlite" in capsys.readouterr().out
    assert not Path("moved.sqlite").exists()
    assert 0 == store.main(["migrate", "--to", "sqlite:///moved.sqlite"])
    assert "set the setting store to use it" in capsys.readouterr().out
    assert content(place) == content(Path("moved.sqlite"))


def test_password_of_a_database_is_in_no_message(place: Path) -> None:
    older(place)
    engine = connection.engine_of(place)

    with pytest.raises(StoreError, match="it has version 0004") as refused:
        maintenance._require_newest(engine, "postgresql://ada:hidden@db.example.org/perftrend")

    assert "hidden" not in str(refused.value)
    engine.dispose()


def test_store_is_migrated_when_a_person_says_so(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    older(place)
    before = content(place)

    assert 3 == store.main(["check"])
    assert "./run store migrate upgrades it to version" in capsys.readouterr().err
    assert 3 == dashboard.main(["--address", "127.0.0.1:0"])
    assert "upgrade it: ./run store migrate" in capsys.readouterr().err
    assert 0 == store.main(["migrate", "--dry-run"])
    assert "0005: Executions" in (said := capsys.readouterr().out)
    assert "nothing was done" in said
    assert before == content(place)

    assert 0 == store.main(["migrate"])
    assert "perftrend.sqlite has the newest schema now\n" in capsys.readouterr().out
    assert 0 == store.main(["migrate"])
    assert "perftrend.sqlite has the newest schema\n" == capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["check"], "store perftrend.sqlite: the file does not exist"),
        (["migrate"], "store perftrend.sqlite: the file does not exist"),
        (["backup", "x"], "store perftrend.sqlite: the file does not exist"),
        (["restore", "x"], "x: the file does not exist"),
        (["backup"], "backup: name the FILE of the backup"),
        (["check", "x"], "check: takes no FILE; remove x"),
        (["check", "--dry-run"], "--dry-run: only migrate and prune take it"),
        (["prune"], "store perftrend.sqlite: the file does not exist"),
        (["restore", "x", "--to", "y"], "--to: only migrate and rename take it"),
        (["chekc"], "invalid choice"),
        ([], "required"),
    ],
)
def test_wrong_use_changes_nothing(
    place: Path, arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = store.main(arguments)
    except SystemExit as end:
        code = int(end.code or 0)

    assert code in {2, 3}
    assert told in capsys.readouterr().err
    assert [] == list(place.parent.iterdir())


def test_run_is_marked_as_invalid_and_restored(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(place)

    assert 0 == store.main(["invalidate", "nightly/2", "--reason", "a fan failed"])
    assert "run nightly/2: marked as invalid\n" == capsys.readouterr().out
    with Store.open(place) as opened:
        assert [False, True, False] == [math.isnan(each) for each in opened.series("2n-clx")[0].samples]
        [mark] = opened.invalidations.of_testbed("2n-clx")
        assert ("a fan failed", getpass.getuser()) == (mark.reason, mark.author)
    assert 0 == store.main(["check"])
    assert 0 == store.main(["backup", "copy.sqlite"])
    assert content(place) == content(Path("copy.sqlite"))

    assert 0 == store.main(["invalidate", "nightly/2", "--undo"])
    assert "run nightly/2: no longer marked as invalid\n" in capsys.readouterr().out
    with Store.open(place) as opened:
        assert [1.0, 2.0, 3.0] == opened.series("2n-clx")[0].samples.tolist()


def test_results_of_a_test_are_marked_as_invalid(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(place)

    assert 0 == store.main(["invalidate", "nightly/2", "--test", "ip4", "--reason", "noise"])
    assert "run nightly/2, test ip4: marked as invalid\n" == capsys.readouterr().out
    assert 0 == store.main(["invalidate", "nightly/2", "--test", "ip4", "--undo"])


def test_per_patch_test_is_marked_as_invalid_and_restored(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(place)

    assert 0 == store.main(["invalidate", "perftest/5", "--reason", "a fan failed"])
    assert 0 == store.main(["invalidate", "perftest/5", "--test", "ip4", "--reason", "noise"])
    told = [
        "per-patch test perftest/5: marked as invalid",
        "per-patch test perftest/5, test ip4: marked as invalid",
    ]
    assert told == capsys.readouterr().out.splitlines()
    with Store.open(place) as opened:
        [trace] = opened.patch_tests.traces(PATCH_TEST)
        assert ([], "noise") == (opened.patch_tests.newest(1), trace.invalid)

    assert 0 == store.main(["invalidate", "perftest/5", "--undo"])
    with Store.open(place) as opened:
        assert [PATCH_TEST] == opened.patch_tests.newest(1)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["invalidate"], "invalidate: name the run, as JOB/BUILD"),
        (["invalidate", "nightly/2"], "invalidate: give a --reason"),
        (["invalidate", "nightly", "--reason", "x"], "a run is JOB/BUILD, such as nightly/7, not 'nightly'"),
        (["invalidate", "nightly/9", "--reason", "x"], "it has no run and no per-patch test nightly/9"),
        (
            ["invalidate", "perftest/5", "--trace", "ab", "--reason", "x"],
            "--test NAME instead of --trace",
        ),
        (["invalidate", "nightly/2", "--undo"], "run nightly/2 is not marked as invalid"),
        (["invalidate", "nightly/2", "--undo", "--reason", "x"], "--undo: takes no --reason"),
        (["check", "--reason", "x"], "--reason: only invalidate takes it"),
    ],
)
def test_what_does_not_fit_is_refused(
    place: Path, arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(place)

    assert 2 == store.main(arguments)
    assert told in capsys.readouterr().err


def test_prune_deletes_nothing_by_default(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(place)
    before = content(place)

    assert 0 == store.main(["prune"])
    assert "details: no limit; set retention.details_days\n" in capsys.readouterr().out
    assert before == content(place)


def test_dry_run_of_prune_prints_the_same_and_changes_nothing(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(place)
    Path("settings.yaml").write_text("retention: {details_days: 30, short_urls_days: 1}")
    before = content(place)

    assert 0 == store.main(["prune", "--dry-run", "--settings", "settings.yaml"])
    planned = capsys.readouterr().out
    assert "details: 3 rows older than 30 d would be deleted\n" in planned
    assert "short_urls: 0 rows older than 1 d would be deleted\n" in planned
    assert "duplicate details: 0 rows would be deleted\n" in planned
    assert before == content(place)

    assert 0 == store.main(["prune", "--settings", "settings.yaml"])
    assert planned.replace("would be deleted", "deleted") == capsys.readouterr().out
    assert 0 == store.main(["check"])
    with Store.open(place) as made:
        assert [1.0, 2.0, 3.0] == [made.results(run)[0].value for run in made.runs("2n-clx")]


def test_prune_deletes_old_files(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(place)
    Path("settings.yaml").write_text("retention: {archives_days: 30, bisections_days: 30}")
    old = [Path("archives/nightly/1/log"), Path("archives/requests/k1/log"), Path("bisections/a.jsonl")]
    for path in (*old, Path("archives/nightly/2/log")):
        path.parent.mkdir(parents=True)
        path.write_text("data")
        for each in (path, path.parent):
            os.utime(each, (0, 0))

    assert 0 == store.main(["prune", "--dry-run", "--settings", "settings.yaml"])
    planned = capsys.readouterr().out
    assert "archives: 2 folders (8 bytes) older than 30 d would be deleted\n" in planned
    assert "bisections: 1 sessions (4 bytes) older than 30 d would be deleted\n" in planned
    assert all(path.exists() for path in old)

    assert 0 == store.main(["prune", "--settings", "settings.yaml"])
    assert planned.replace("would be deleted", "deleted") == capsys.readouterr().out
    assert not any(path.exists() for path in old)


def test_test_is_renamed_listed_and_restored(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(place)

    assert 0 == store.main(["rename", "ip4", "--to", "ip4-new"])
    assert "test ip4 is ip4-new now: 1 trace\n" == capsys.readouterr().out
    with Store.open(place) as opened:
        assert ["ip4-new"] == [each.key["test"] for each in opened.series("2n-clx")]
        axis = opened.tiles.axis("2n-clx")
        assert len(axis.columns) == axis.whole
    assert 0 == store.main(["rename"])
    assert capsys.readouterr().out.startswith(f"test ip4 is ip4-new now ({getpass.getuser()}, ")
    assert 0 == store.main(["check"])

    assert 0 == store.main(["rename", "ip4", "--undo"])
    assert "test ip4 is no longer renamed: 1 trace\n" in capsys.readouterr().out
    with Store.open(place) as opened:
        assert ["ip4"] == [each.key["test"] for each in opened.series("2n-clx")]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["rename", "ip4"], "rename: give the new name, --to NAME"),
        (["rename", "ip4", "--to", "x", "--undo"], "--undo: takes no --to"),
        (["rename", "--to", "x"], "--to: name the old NAME as well"),
        (["rename", "--undo"], "--undo: name the old NAME as well"),
        (["rename", "ip4", "--to", "ip4"], "test 'ip4' cannot be renamed to itself"),
        (["rename", "ip4", "--to", "x", "--parameter", "testbed"], "a testbed cannot be renamed"),
        (["rename", "ip4", "--to", ""], "the new name is empty"),
        (["rename", "ip4", "--to", "x", "--parameter", ""], "the parameter is empty"),
        (["check", "--parameter", "suite"], "--parameter: only rename takes it"),
    ],
)
def test_what_is_no_rename_is_refused_in_a_line(
    place: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    fill(place)
    before = content(place)

    assert 2 == store.main(arguments)

    [line] = capsys.readouterr().err.splitlines()
    assert told in line
    assert before == content(place)


def test_store_is_exported_and_imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place, other, folder = tmp_path / "store.sqlite", tmp_path / "other.sqlite", tmp_path / "files"
    fill(place)

    assert 0 == store.main(["export", str(folder), "--store", str(place)])
    assert f"3 runs of {place} with 3 results are in {folder}\n" == capsys.readouterr().out
    assert 0 == store.main(["import", str(folder), "--store", str(other)])
    assert f"3 runs of {folder} were added to {other}\n" == capsys.readouterr().out
    assert 0 == store.main(["import", str(folder), "--store", str(other)])
    assert f"0 runs of {folder} were added to {other}; 3 runs were there already\n" == capsys.readouterr().out


def test_package_that_parquet_needs_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "perftrend.store.parquet", raising=False)
    monkeypatch.delattr("perftrend.store.parquet", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    assert 2 == store.main(["export", str(tmp_path / "files"), "--store", str(tmp_path / "store.sqlite")])

    assert "install it with: " in capsys.readouterr().err
    assert [] == list(tmp_path.iterdir())


def test_folder_that_cannot_be_written_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "store.sqlite"
    fill(place)
    (tmp_path / "files").write_text("a file")

    assert 2 <= store.main(["export", str(tmp_path / "files"), "--store", str(place)])

    assert 1 == len(capsys.readouterr().err.splitlines())
