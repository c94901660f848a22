"""Builds in a watched folder are requested once, when they are complete."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from perftrend.archive.fetch import tree
from perftrend.archive.ingestion import UNSTORED_MARK
from perftrend.dashboard import AppContext
from perftrend.dashboard.ingestion.worker import BuildFolder, request_ingestion
from perftrend.errors import ServiceError
from perftrend.model import Run
from perftrend.store.ingestions import IngestionState

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "archives").mkdir()
    return tmp_path / "archives"


@pytest.fixture
def watched(folder: Path) -> BuildFolder:
    return BuildFolder(folder)


def write(folder: Path, name: str, content: str = "<robot/>") -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def asked(site: AppContext) -> list[tuple[str, int, str]]:
    return [(each.job, each.build, each.source) for each in site.store.ingestions.newest(10)]


def test_build_is_asked_for_when_it_rests(site: AppContext, folder: Path, watched: BuildFolder) -> None:
    write(folder, "nightly-2n-clx/17/output.xml", "<robot")
    request_ingestion(site, watched)
    write(folder, "nightly-2n-clx/17/output.xml")
    request_ingestion(site, watched)
    assert [] == asked(site)

    request_ingestion(site, watched)
    request_ingestion(site, watched)
    assert [("nightly-2n-clx", 17, str(folder / "nightly-2n-clx/17"))] == asked(site)


def test_per_patch_test_is_asked_for_while_its_rounds_are_measured(
    site: AppContext, folder: Path, watched: BuildFolder
) -> None:
    write(folder, "perftest-2n-clx/17/report/perftest.json", "{}")
    for number in (1, 2):
        write(folder, "perftest-2n-clx/17/parent/.1.unfinished/output.xml", "<robot" * number)
        request_ingestion(site, watched)

    assert [("perftest-2n-clx", 17, str(folder / "perftest-2n-clx/17"))] == asked(site)


def test_file_that_comes_to_it_makes_it_wait(site: AppContext, folder: Path, watched: BuildFolder) -> None:
    write(folder, "nightly-2n-clx/17/output.xml")
    request_ingestion(site, watched)
    write(folder, "nightly-2n-clx/17/tests/one.json")
    request_ingestion(site, watched)

    assert [] == asked(site)


def test_build_that_was_read_is_left_alone_until_another_takes_its_place(
    site: AppContext, folder: Path, watched: BuildFolder
) -> None:
    archive = str(folder / "nightly-2n-clx" / "17")
    site.store.add(Run("2n-clx", "nightly-2n-clx", 17, MOMENT, MOMENT, archive=archive), [])
    write(folder, "nightly-2n-clx/17/output.xml")
    for _ in range(3):
        request_ingestion(site, watched)
    assert [] == asked(site)

    write(folder, "nightly-2n-clx/17/output.xml", "another")
    for _ in range(3):
        request_ingestion(site, watched)
    assert [("nightly-2n-clx", 17, archive)] == asked(site)


def test_build_that_failed_is_asked_for_again_when_it_changed(
    site: AppContext, folder: Path, watched: BuildFolder
) -> None:
    write(folder, "nightly-2n-clx/17/output.xml", "<robot")
    for _ in range(2):
        request_ingestion(site, watched)
    task = site.store.ingestions.claim(datetime.now(UTC))
    assert task is not None
    site.store.ingestions.finish(task, state=IngestionState.FAILED, now=MOMENT, exit_code=2, message="broken")
    for _ in range(2):
        request_ingestion(site, watched)
    assert 1 == len(asked(site))

    write(folder, "nightly-2n-clx/17/output.xml")
    for _ in range(2):
        request_ingestion(site, watched)
    assert 2 == len(asked(site))


def test_run_whose_job_will_store_it_is_left_to_that(
    site: AppContext, folder: Path, watched: BuildFolder
) -> None:
    write(folder, f"nightly-2n-clx/17/{UNSTORED_MARK}")
    write(folder, "nightly-2n-clx/17/output.xml")
    for _ in range(3):
        request_ingestion(site, watched)

    assert [] == asked(site)


def test_what_is_no_build_is_passed_over(site: AppContext, folder: Path, watched: BuildFolder) -> None:
    write(folder, "notes.txt")
    write(folder, "nightly-2n-clx/latest/output.xml")
    (folder / "nightly-2n-clx/18").mkdir(parents=True)
    (folder / "nightly-2n-clx/19").symlink_to("/etc")
    for _ in range(3):
        request_ingestion(site, watched)

    assert [] == asked(site)


def test_build_that_is_none_hides_no_other(
    site: AppContext, folder: Path, watched: BuildFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "MOST_FOLDERS", 3)
    write(folder, "nightly-2n-clx/17/output.xml")
    for number in range(4):
        (folder / f"nightly-2n-clx/20260101/{number}x").mkdir(parents=True)
    for _ in range(2):
        request_ingestion(site, watched)

    assert 17 in [build for _, build, _ in asked(site)]


def test_folder_that_is_away_is_told(site: AppContext, tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="away"):
        request_ingestion(site, BuildFolder(tmp_path / "away"))
