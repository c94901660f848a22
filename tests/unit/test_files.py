"""Files that are visible whole or not at all, and locks."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from perftrend.files import acquire_lock, hold_lock, stage_folder, try_lock, write_whole


@pytest.mark.parametrize("content", ["new ü\n", "new ü\n".encode()])
def test_content_replaces_the_old_one_and_what_an_interrupted_write_left(
    tmp_path: Path, content: str | bytes
) -> None:
    path = tmp_path / "state.json"
    path.write_text("old")
    (tmp_path / ".state.json.unfinished").write_text("half of something longer")

    assert write_whole(path, content) == path

    assert path.read_bytes() == "new ü\n".encode()
    assert [each.name for each in tmp_path.iterdir()] == ["state.json"]


def test_old_content_survives_a_write_that_fails(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text("old")
    (tmp_path / ".state.json.unfinished").mkdir()

    with pytest.raises(OSError, match="Is a directory"):
        write_whole(path, "new")

    assert path.read_text() == "old"


def test_staged_folder_is_there_as_a_whole_without_what_killed_processes_left(tmp_path: Path) -> None:
    (tmp_path / ".6.unfinished").mkdir()
    with stage_folder(tmp_path / "7") as staging:
        (staging / "output.xml").touch()
        before = [each.name for each in tmp_path.iterdir()]

    assert ([".7.unfinished"], ["7"]) == (before, [each.name for each in tmp_path.iterdir()])
    assert (tmp_path / "7" / "output.xml").exists()


def test_staged_folder_is_removed_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError), stage_folder(tmp_path / "7"):
        raise KeyError

    assert [] == list(tmp_path.iterdir())


@pytest.fixture(params=["file", "folder"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "place"
    if request.param == "file":
        path.touch()
    else:
        path.mkdir()
    return path


def test_lock_is_held_by_one_until_it_is_closed(place: Path) -> None:
    with try_lock(place) as first, try_lock(place) as second:
        assert first is not None
        assert second is None

    with try_lock(place) as third:
        assert third is not None


def test_link_is_not_followed(place: Path) -> None:
    link = place.with_name("link")
    link.symlink_to(place)

    with pytest.raises(OSError, match="symbolic links"), try_lock(link):
        pass


def test_file_of_a_lock_is_created_and_may_be_shared(tmp_path: Path) -> None:
    path = tmp_path / "new" / "lock"
    shared = [acquire_lock(path, shared=True), acquire_lock(path, shared=True)]

    assert None not in shared
    assert acquire_lock(path, wait=False) is None

    for descriptor in shared:
        os.close(descriptor or 0)


def test_holder_waits_and_locks_the_new_file_if_the_old_one_was_removed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = acquire_lock(path)
    assert first is not None
    waits = threading.Event()
    held: list[int] = []

    def wait() -> None:
        with hold_lock(path, on_wait=waits.set) as descriptor:
            held.append(os.fstat(descriptor).st_ino)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert waits.wait(60)
    path.unlink()
    path.touch()
    os.close(first)
    waiting.join(60)

    assert held == [path.stat().st_ino]
