from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from perftrend.errors import TestbedError
from perftrend.measure import lock
from perftrend.measure.lock import LockedPlace, hold

RESOURCES = Path(lock.__file__).parents[2]
HOLD = """
import pathlib, sys, time
from perftrend.measure import lock
lock.FOLDER = pathlib.Path(sys.argv[1])
with lock.hold("box", owner="nightly"):
    print("held", flush=True)
    time.sleep(60)
"""


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@contextmanager
def another_user() -> Iterator[None]:
    """Be a user who has no right to the files of others."""
    os.seteuid(12345)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Use a folder that every user can reach, as that of the tests is only for its user."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        folder = Path(made)
        folder.chmod(0o1777)
        monkeypatch.setattr(lock, "FOLDER", folder)
        yield folder


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the locks of tests apart from those of this machine."""
    monkeypatch.setattr(lock, "FOLDER", tmp_path)
    monkeypatch.setattr(lock, "_LOOK_EVERY_S", 0.01)
    monkeypatch.delenv(lock.HELD, raising=False)
    return tmp_path


def test_a_lock_is_free_again_after_its_block() -> None:
    for _ in range(2):
        with hold("box"):
            pass


def test_second_job_fails_and_names_the_holder() -> None:
    told = rf"box is in use by nightly \(process {os.getpid()}\); wait longer with --wait"
    with hold("box", owner="nightly"), pytest.raises(TestbedError, match=told), hold("box"):
        pass


def test_second_job_waits_and_then_gets_it() -> None:
    release = threading.Event()
    ready = threading.Event()

    def first() -> None:
        with hold("box"):
            ready.set()
            release.wait(10)

    holder = threading.Thread(target=first)
    holder.start()
    ready.wait(10)
    told: list[str] = []

    def say(message: str) -> None:
        told.append(message)
        release.set()

    with hold("box", wait_s=10, owner="second", report=say) as place:
        assert place.descriptor >= 0
    holder.join()
    assert 1 == len(told)
    assert "waiting for up to 10 s" in told[0]


def test_an_error_inside_gives_the_lock_back() -> None:
    with pytest.raises(ZeroDivisionError), hold("box"):
        raise ZeroDivisionError

    with hold("box"):
        pass


def test_locks_of_different_names_do_not_meet() -> None:
    with hold("box"), hold("crate"):
        pass


def test_as_many_jobs_as_there_is_capacity_get_in() -> None:
    with ExitStack() as stack:
        places = [stack.enter_context(hold("box", capacity=2)) for _ in range(2)]
        assert [0, 1] == [place.instance for place in places]
        with pytest.raises(TestbedError, match="in use"):
            stack.enter_context(hold("box", capacity=2))


def test_lock_is_free_after_its_holder_was_killed(folder: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(RESOURCES)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as holder:
        assert holder.stdout is not None
        assert "held\n" == holder.stdout.readline()
        with pytest.raises(TestbedError, match="in use by nightly"), hold("box"):
            pass
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()

        with hold("box"):
            pass


def test_child_of_the_holder_goes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    with hold("box"):
        monkeypatch.setenv(lock.HELD, "box")
        with hold("box") as place:
            assert LockedPlace(-1) == place
        monkeypatch.setenv(lock.HELD_INSTANCE, "3")
        with hold("box") as place:
            assert LockedPlace(-1, 3) == place
        monkeypatch.setenv(lock.HELD_LOCK, "1a2b")
        with hold("box") as place:
            assert LockedPlace(-1, 3, "1a2b") == place


def test_child_of_the_holder_of_another_lock_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(lock.HELD, "crate")
    with hold("box"), pytest.raises(TestbedError, match="in use"), hold("box"):
        pass


def test_a_child_that_inherits_the_place_holds_it() -> None:
    with hold("box") as place:
        child = subprocess.Popen(["sleep", "60"], pass_fds=(place.descriptor,))
    try:
        with pytest.raises(TestbedError, match="in use"), hold("box"):
            pass
    finally:
        child.kill()
        child.wait()

    with hold("box"):
        pass


def test_every_user_can_write_the_holder_into_the_file(folder: Path) -> None:
    mask = os.umask(0o077)
    try:
        with hold("box"):
            pass
    finally:
        os.umask(mask)

    assert 0o666 == stat.S_IMODE((folder / "perftrend-box.0.lock").stat().st_mode)


@needs_root
@pytest.mark.usefixtures("shared")
def test_holder_names_itself_in_the_file_of_another_user() -> None:
    with hold("box", owner="weekly"):
        pass
    with (
        another_user(),
        hold("box", owner="nightly"),
        pytest.raises(TestbedError, match=r"in use by nightly \(process \d+\); wait"),
        hold("box"),
    ):
        pass


@needs_root
def test_holder_that_cannot_name_itself_is_another_job(shared: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    file = shared / "perftrend-box.0.lock"
    file.write_text(f"weekly (process {ended.pid})")
    file.chmod(0o644)

    with (
        another_user(),
        hold("box", owner="nightly"),
        pytest.raises(TestbedError, match=r"in use by another job; wait"),
        hold("box"),
    ):
        pass


@pytest.mark.parametrize(
    "text", [b"", b"\x1b[2Jcleared (process 1)", b"a\nb (process 1)", b"\xff\x00", b"x" * 10_000]
)
def test_text_that_no_job_wrote_is_not_shown(folder: Path, text: bytes) -> None:
    with hold("box"):
        (folder / "perftrend-box.0.lock").write_bytes(text)
        with pytest.raises(TestbedError, match=r"in use by another job; wait"), hold("box"):
            pass


def test_a_file_with_two_names_is_locked_and_left_alone(folder: Path) -> None:
    target = folder / "elsewhere"
    target.write_text("precious")
    (folder / "perftrend-box.0.lock").hardlink_to(target)

    with (
        hold("box", owner="nightly"),
        pytest.raises(TestbedError, match="in use by another job"),
        hold("box"),
    ):
        pass
    assert "precious" == target.read_text()


def test_a_named_pipe_in_the_place_of_the_file_stops_no_job(folder: Path) -> None:
    os.mkfifo(folder / "perftrend-box.0.lock")

    with (
        hold("box", owner="nightly"),
        pytest.raises(TestbedError, match="in use by another job"),
        hold("box"),
    ):
        pass


def test_a_link_in_the_place_of_the_file_is_refused(folder: Path) -> None:
    target = folder / "elsewhere"
    target.write_text("precious")
    (folder / "perftrend-box.0.lock").symlink_to(target)

    with pytest.raises(OSError, match="symbolic links"), hold("box"):
        pass
    assert "precious" == target.read_text()


def test_a_link_to_nothing_is_refused(folder: Path) -> None:
    (folder / "perftrend-box.0.lock").symlink_to(folder / "elsewhere")

    with pytest.raises(OSError, match="symbolic links"), hold("box"):
        pass
    assert not (folder / "elsewhere").exists()


def test_holders_are_named_without_locking(folder: Path) -> None:
    assert [] == lock.holders("box")
    with hold("box", owner="nightly", capacity=2), hold("box", owner="perftest", capacity=2):
        names = [each.partition(" ")[0] for each in lock.holders("box", capacity=2)]
        assert ["nightly", "perftest"] == names

    assert [] == lock.holders("box", capacity=2)
    assert ["perftrend-box.0.lock", "perftrend-box.1.lock"] == sorted(each.name for each in folder.iterdir())


def test_lock_file_that_leads_elsewhere_is_an_error(folder: Path) -> None:
    (folder / "perftrend-box.0.lock").symlink_to("/etc/passwd")

    with pytest.raises(OSError, match="symbolic links"):
        lock.holders("box")
