"""Folders that cannot be written, full disks, and files with secrets that others can read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from perftrend.doctor import storage
from perftrend.doctor.check_results import CheckResult, Severity
from perftrend.settings import Settings
from tests.conftest import Require


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder that all users can reach, and have no files of one's own."""
    for each in (tmp_path, *tmp_path.parents):
        if each.stat().st_uid == os.geteuid() and each != Path("/"):
            each.chmod(each.stat().st_mode | 0o011)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextmanager
def another_user() -> Iterator[None]:
    """Be a user who has no right to the files of others."""
    os.seteuid(12345)
    try:
        yield
    finally:
        os.seteuid(0)


def check(
    file: Path | None = None, environment: Mapping[str, str] | None = None, **settings: object
) -> list[CheckResult]:
    return list(storage.check_files(Settings.model_validate(settings), file and str(file), environment or {}))


def faults(found: list[CheckResult]) -> list[tuple[str, str]]:
    return [(each.what, each.fix) for each in found if each.severity is Severity.FAULT]


def test_default_folders_are_on_one_disk_and_are_not_created(folder: Path) -> None:
    (disk,) = [each for each in check() if each.what == "disk"]

    assert all(name in disk.text for name in ("archive", "report", "store", "project.builds"))
    assert ["home"] == [each.name for each in folder.iterdir()]
    assert [] == faults(check())


def test_file_in_place_of_a_folder_is_a_fault(folder: Path) -> None:
    (folder / "archives").write_text("")

    assert [("folders", "set archive to another place")] == faults(check())


def test_folder_of_another_user_is_a_fault(folder: Path, require: Require) -> None:
    require(os.geteuid() == 0, "needs root")
    with another_user():
        found = check(archive=folder / "a b", report=folder / "r")

    ((what, fix), *_) = faults(found)
    assert "folders" == what
    assert fix.startswith(f"sudo install -d -o 12345 '{folder}/a b' {folder}/r")


def test_folder_that_the_user_cannot_see_is_a_fault(folder: Path, require: Require) -> None:
    require(os.geteuid() == 0, "needs root")
    (folder / "closed").mkdir(mode=0o700)
    with another_user():
        found = check(store=str(folder / "closed" / "in" / "x.sqlite"))

    assert any(each.text.startswith(f"store: {folder}/closed cannot") for each in found)


@pytest.mark.parametrize(
    "text", ["gerrit: {token: abc}", "store: postgresql://me:pw@db/x", "mail: {password: x}"]
)
def test_settings_with_a_secret_that_others_can_read_are_a_fault(folder: Path, text: str) -> None:
    file = folder / "team's.yaml"
    file.write_text(text)
    file.chmod(0o644)

    assert [("secrets", f"chmod o-rwx '{folder}/team'\"'\"'s.yaml'")] == faults(check(file))
    file.chmod(0o640)
    assert [] == faults(check(file))


def test_settings_without_a_secret_may_be_public(folder: Path) -> None:
    file = folder / "team.yaml"
    file.write_text("store: postgresql://me@db/x\n")
    file.chmod(0o644)

    assert [] == faults(check(file))


def test_file_that_others_cannot_reach_is_no_fault(folder: Path) -> None:
    (folder / "closed").mkdir(mode=0o700)
    secret = folder / "closed" / "token"
    secret.write_text("abc")
    secret.chmod(0o644)

    assert [] == faults(check(environment={"PERFTREND_GERRIT_TOKEN_FILE": str(secret)}))
    (folder / "link").symlink_to(secret)
    assert [] == faults(check(environment={"PERFTREND_GERRIT_TOKEN_FILE": str(folder / "link")}))


def test_file_of_a_variable_is_checked(folder: Path) -> None:
    secret = folder / "token"
    secret.write_text("abc")
    secret.chmod(0o604)

    found = check(environment={"PERFTREND_JENKINS_TOKEN_FILE": str(secret), "OTHER_FILE": str(folder)})

    assert [("secrets", f"chmod o-rwx {secret}")] == faults(found)


def test_key_and_pgpass_must_be_private(folder: Path) -> None:
    """For ssh and PostgreSQL ignore a file that the group may read."""
    key, pgpass = folder / "key", folder / "home" / ".pgpass"
    for file in (key, pgpass):
        file.write_text("x")
        file.chmod(0o640)

    found = check(gerrit={"ssh_key": key})

    assert [("secrets", f"chmod 600 {key}"), ("secrets", f"chmod 600 {pgpass}")] == faults(found)


def test_login_of_jenkins_job_builder_is_a_secret(folder: Path) -> None:
    (folder / "jenkins_jobs.ini").write_text("[jenkins]\n")
    (folder / "jenkins_jobs.ini").chmod(0o644)

    assert [("secrets", "chmod o-rwx jenkins_jobs.ini")] == faults(check())


def test_closed_files_are_listed(folder: Path) -> None:
    (folder / "home" / ".netrc").write_text("x")
    (folder / "home" / ".netrc").chmod(0o600)

    assert f"other users cannot read {folder}/home/.netrc" in [each.text for each in check()]
