"""Runs that were archived but not stored are found again, and stored once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perftrend.archive import store_pending
from perftrend.archive.ingestion import UNSTORED_MARK, mark_unstored
from perftrend.errors import StoreError, UnstorableError
from perftrend.model import Result, Run
from perftrend.store import Store

OUTPUT = Path(__file__).parents[2] / "data" / "outputs" / "rf7.xml"
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
RUN = Run(testbed="2n-clx", job="trending", build=9, started=MOMENT, finished=MOMENT, archive="there")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.sqlite") as opened:
        yield opened


def archived(folder: Path, build: int) -> Path:
    archive = folder / str(build)
    archive.mkdir(parents=True)
    shutil.copy(OUTPUT, archive / "output.xml")
    mark_unstored(archive, replace(RUN, build=build))
    return archive


def test_marked_runs_are_stored_in_the_order_of_their_builds(store: Store, tmp_path: Path) -> None:
    for build in (10, 9):
        archived(tmp_path / "job", build)

    stored = list(store_pending(store, tmp_path / "job"))

    assert [9, 10] == [each.run.build for each in stored]
    assert {each.run for each in stored} == set(store.runs("2n-clx"))
    assert ["10", "9"] == sorted(each.name for each in (tmp_path / "job").iterdir())


def test_a_run_that_was_stored_is_not_looked_at_again(store: Store, tmp_path: Path) -> None:
    archive = archived(tmp_path / "job", 9)
    list(store_pending(store, tmp_path / "job"))

    assert not (archive / UNSTORED_MARK).exists()
    assert [] == list(store_pending(store, tmp_path / "job"))


def test_a_run_killed_between_store_and_mark_is_not_doubled(store: Store, tmp_path: Path) -> None:
    archive = archived(tmp_path / "job", 9)
    list(store_pending(store, tmp_path / "job"))
    mark_unstored(archive, RUN)

    assert [False] == [each.added for each in store_pending(store, tmp_path / "job")]
    assert 1 == len(store.runs("2n-clx"))


def test_a_damaged_output_is_told_once_and_stops_no_other(store: Store, tmp_path: Path) -> None:
    (archived(tmp_path / "job", 9) / "output.xml").write_text("<robot>")
    archived(tmp_path / "job", 10)
    told: list[str] = []

    stored = list(store_pending(store, tmp_path / "job", report=told.append))

    assert [10] == [each.run.build for each in stored]
    assert 1 == len(told)
    assert "job/9: the run is archived, but cannot be stored: " in told[0]
    assert [] == list(store_pending(store, tmp_path / "job"))


def test_a_run_that_contradicts_the_store_is_told_once_and_stops_no_other(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add(run: Run, results: Sequence[Result]) -> bool:
        if run.build == 9:
            raise UnstorableError("now it is in cps")
        return Store.add(store, run, results)

    monkeypatch.setattr(store, "add", add)
    for build in (9, 10):
        archived(tmp_path / "job", build)
    told: list[str] = []

    stored = list(store_pending(store, tmp_path / "job", report=told.append))

    assert [10] == [each.run.build for each in stored]
    assert [f"{tmp_path}/job/9: the run is archived, but cannot be stored: now it is in cps"] == told
    assert [] == list(store_pending(store, tmp_path / "job"))


def test_runs_of_two_jobs_at_once_are_stored_once(store: Store, tmp_path: Path) -> None:
    for build in range(8):
        archived(tmp_path / "job", build)

    with ThreadPoolExecutor(4) as pool:
        stored = pool.map(lambda _: list(store_pending(store, tmp_path / "job")), range(4))

    assert [*range(8)] == sorted(each.run.build for part in stored for each in part)


def test_a_damaged_mark_is_told_too(store: Store, tmp_path: Path) -> None:
    (archived(tmp_path / "job", 9) / UNSTORED_MARK).write_text('{"testbed": ')
    told: list[str] = []

    assert [] == list(store_pending(store, tmp_path / "job", report=told.append))
    assert "cannot be stored" in told[0]


def test_a_store_that_fails_leaves_the_mark(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> bool:
        raise StoreError("the disk is full")

    archive = archived(tmp_path / "job", 9)
    monkeypatch.setattr(store, "add", full)

    with pytest.raises(StoreError):
        list(store_pending(store, tmp_path / "job"))
    assert (archive / UNSTORED_MARK).exists()


def test_a_job_that_never_ran_has_nothing_pending(store: Store, tmp_path: Path) -> None:
    assert [] == list(store_pending(store, tmp_path / "nothing"))
