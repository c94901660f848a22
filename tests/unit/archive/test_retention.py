"""Which folders and sessions are removed because of their age, and which stay."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perftrend.archive import retention
from perftrend.errors import ArchiveError

OLD = datetime(2026, 1, 1, tzinfo=UTC)
LIMIT = OLD + timedelta(days=10)


def age(path: Path) -> None:
    """Give a file, or a folder with all that is in it, an old date."""
    for each in (*path.rglob("*"), path):
        os.utime(each, (OLD.timestamp(), OLD.timestamp()), follow_symlinks=False)


def build(archive: Path, name: str, file: str = "output.xml") -> Path:
    """Make an old build of four bytes."""
    path = archive / name / file
    path.parent.mkdir(parents=True)
    path.write_text("data")
    folder = archive / name
    age(folder)
    return folder


@contextmanager
def locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield
    os.close(descriptor)


def builds(archive: Path) -> list[str]:
    return [str(each.path.relative_to(archive)) for each in retention.find_expired_builds(archive, LIMIT)]


def test_old_builds_are_removed_but_for_the_newest_of_each_job(tmp_path: Path) -> None:
    for name in ("nightly/9", "nightly/10", "nightly/11", "weekly/1"):
        build(tmp_path, name)

    expired = list(retention.find_expired_builds(tmp_path, LIMIT))
    assert [(tmp_path / "nightly/9", 4), (tmp_path / "nightly/10", 4)] == [
        (each.path, each.size) for each in expired
    ]
    for each in expired:
        retention.remove(each)
    assert ["11"] == [each.name for each in (tmp_path / "nightly").iterdir()]
    assert [] == builds(tmp_path)


@pytest.mark.parametrize("file", ["not-stored.json", "parent/1/not-stored.json"])
def test_build_that_no_store_has_stays(tmp_path: Path, file: str) -> None:
    build(tmp_path, "nightly/1", file)
    build(tmp_path, "nightly/2")

    assert [] == builds(tmp_path)


def test_build_with_a_new_file_stays(tmp_path: Path) -> None:
    build(tmp_path, "nightly/1", "round/output.xml")
    build(tmp_path, "nightly/2")
    os.utime(tmp_path / "nightly/1/round/output.xml")

    assert [] == builds(tmp_path)


@pytest.mark.parametrize("place", ["", "parent/.2.unfinished"])
def test_build_that_a_process_has_locked_stays(tmp_path: Path, place: str) -> None:
    folder = build(tmp_path, "bisect/1", f"{place}/output.xml" if place else "output.xml")
    build(tmp_path, "bisect/2")

    with locked(folder / place):
        assert [] == builds(tmp_path)
    assert ["bisect/1"] == builds(tmp_path)


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    for name in ("nightly/.1.unfinished", "nightly/notes", "nightly/2"):
        build(tmp_path, name)

    assert [] == builds(tmp_path)
    assert [] == builds(tmp_path / "missing")


def test_symbolic_links_are_not_followed(tmp_path: Path) -> None:
    target = build(tmp_path, "elsewhere/job/1")
    archive = tmp_path / "archive"
    folder = build(archive, "nightly/1")
    build(archive, "nightly/3")
    (folder / "link").symlink_to(target)
    (archive / "nightly/2").symlink_to(target)
    (archive / "job").symlink_to(target.parent)
    age(folder)

    assert ["nightly/1"] == builds(archive)
    retention.remove(next(retention.find_expired_builds(archive, LIMIT)))
    assert not folder.exists()
    assert (target / "output.xml").exists()


def test_what_a_killed_removal_left_is_removed(tmp_path: Path) -> None:
    left = build(tmp_path, "nightly/.1.pruned")
    os.utime(left)
    build(tmp_path, "nightly/2")

    retention.remove(next(retention.find_expired_builds(tmp_path, LIMIT)))
    assert ["2"] == [each.name for each in (tmp_path / "nightly").iterdir()]


def test_folders_in_use_stay(tmp_path: Path) -> None:
    for name in ("requests/a", "requests/b"):
        build(tmp_path, name)

    expired = retention.find_expired_folders(tmp_path / "requests", LIMIT, except_for={"a"})
    assert [tmp_path / "requests/b"] == [each.path for each in expired]


def test_old_sessions_are_removed_unless_in_use(tmp_path: Path) -> None:
    for name in ("old", "used", "new"):
        (tmp_path / f"{name}.jsonl").write_text("{}\n")
        (tmp_path / f"{name}.lock").touch()
    age(tmp_path)
    os.utime(tmp_path / "new.jsonl")

    with locked(tmp_path / "used.lock"):
        expired = list(retention.find_expired_sessions(tmp_path, LIMIT))
    assert ["old.jsonl"] == [each.path.name for each in expired]
    retention.remove(expired[0])
    assert ["new.jsonl", "new.lock", "used.jsonl", "used.lock"] == sorted(
        each.name for each in tmp_path.iterdir()
    )


def test_session_that_is_used_again_meanwhile_stays(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{}\n")
    (tmp_path / "a.lock").touch()
    age(tmp_path)
    (expired,) = retention.find_expired_sessions(tmp_path, LIMIT)

    with locked(tmp_path / "a.lock"):
        retention.remove(expired)
    assert (tmp_path / "a.jsonl").exists()


def test_error_is_one_line(tmp_path: Path) -> None:
    folder = build(tmp_path, "nightly/1")
    build(tmp_path, "nightly/.1.pruned")

    with pytest.raises(ArchiveError, match=r"nightly/1: cannot be removed: Directory not empty$"):
        retention.remove(retention.ExpiredEntry(folder, 0))
