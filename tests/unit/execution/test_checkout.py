"""Where a job that is started in a checkout finds the product, and where it writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from perftrend.errors import SettingsError
from perftrend.execution.revisions import of_working_directory
from perftrend.settings import Settings
from tests.products.histories import History

PROGRAM = {"project.profile": "command", "project.parameters": {"measure": "./bench"}}


@pytest.fixture
def history(tmp_path: Path) -> History:
    history = History(tmp_path / "product")
    history.commit("First", {"src/main.c": "x"})
    return history


def started_in(place: Path, monkeypatch: pytest.MonkeyPatch, **overrides: object) -> Settings:
    monkeypatch.chdir(place)
    named = {name.replace("__", "."): value for name, value in overrides.items()}
    return of_working_directory(Settings.load(environment={}, overrides={**PROGRAM, **named}))


def folders(settings: Settings) -> list[Path]:
    return [settings.archive, settings.report, settings.project.builds, settings.bisect.sessions]


def own_folders(git: Path) -> list[Path]:
    return [git / "perftrend" / name for name in ("archives", "report", "builds", "bisections")]


@pytest.mark.parametrize("place", [".", "src"])
def test_program_is_that_of_the_checkout(
    history: History, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = started_in(history.folder / place, monkeypatch)

    assert str(history.folder) == found.project.repository
    assert own_folders(history.folder / ".git") == folders(found)


def test_worktree_writes_into_the_folder_of_its_repository(
    history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history.git("worktree", "add", "--quiet", str(tmp_path / "worktree"))

    found = started_in(tmp_path / "worktree", monkeypatch)

    assert str(tmp_path / "worktree") == found.project.repository
    assert own_folders(history.folder / ".git") == folders(found)


def test_bare_repository_is_a_product_too(
    history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = tmp_path / "bare.git"
    history.git("clone", "--quiet", "--bare", str(history.folder), str(bare))

    found = started_in(bare, monkeypatch)

    assert (str(bare), own_folders(bare)) == (found.project.repository, folders(found))


def test_repository_that_is_set_outweighs_the_checkout(
    history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = History(tmp_path / "other")
    addresses = [str(other.folder), "../other", f"file://{other.folder}", "https://example.org/other.git"]

    found = [started_in(history.folder, monkeypatch, project__repository=each) for each in addresses]

    assert addresses == [each.project.repository for each in found]
    assert all(folders(Settings()) == folders(each) for each in found)


@pytest.mark.parametrize("profile", ["command", "embedded-router"])
def test_nothing_is_written_into_the_product_that_is_set(
    history: History, profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = PROGRAM["project.parameters"] if profile == "command" else {}

    found = started_in(
        history.folder / "src",
        monkeypatch,
        project__repository="..",
        project__profile=profile,
        project__parameters=parameters,
    )

    assert ("..", own_folders(history.folder / ".git")) == (found.project.repository, folders(found))


def test_folders_that_are_set_are_used(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    found = started_in(history.folder, monkeypatch, archive="mine", project__builds="/var/cache/builds")

    assert (Path("mine"), Path("/var/cache/builds")) == (found.archive, found.project.builds)
    assert history.folder / ".git/perftrend/report" == found.report


def test_other_products_do_not_come_from_where_the_job_starts(
    history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a program, if that is no checkout."""
    suites = started_in(history.folder, monkeypatch, project__profile="ovs-flows", project__parameters={})

    assert None is suites.project.repository
    assert None is started_in(tmp_path, monkeypatch).project.repository


def test_profile_is_required(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(history.folder)

    with pytest.raises(SettingsError, match="no product is chosen"):
        of_working_directory(Settings())
