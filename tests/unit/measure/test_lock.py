from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from perftrend.errors import TestbedError
from perftrend.measure import lock
from perftrend.measure.lock import Place, held

RESOURCES = Path(lock.__file__).parents[2]
HOLD = """
import pathlib, sys, time
from perftrend.measure import lock
lock.FOLDER = pathlib.Path(sys.argv[1])
with lock.held("box", owner="nightly"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the locks of tests apart from those of this machine."""
    monkeypatch.setattr(lock, "FOLDER", tmp_path)
    monkeypatch.setattr(lock, "_LOOK_EVERY_S", 0.01)
    monkeypatch.delenv(lock.HELD, raising=False)
    return tmp_path


def test_a_lock_is_free_again_after_its_block() -> None:
    for _ in range(2):
        with held("box"):
            pass


def test_second_job_fails_and_names_the_holder() -> None:
    told = rf"box is in use by nightly \(process {os.getpid()}\); wait longer with --wait"
    with held("box", owner="nightly"), pytest.raises(TestbedError, match=told), held("box"):
        pass


def test_second_job_waits_and_then_gets_it() -> None:
    release = threading.Event()
    ready = threading.Event()

    def first() -> None:
        with held("box"):
            ready.set()
            release.wait(10)

    holder = threading.Thread(target=first)
    holder.start()
    ready.wait(10)
    told: list[str] = []

    def say(message: str) -> None:
        told.append(message)
        release.set()

    with held("box", wait_s=10, owner="second", say=say) as place:
        assert place.descriptor >= 0
    holder.join()
    assert 1 == len(told)
    assert "waiting for up to 10 s" in told[0]


def test_an_error_inside_gives_the_lock_back() -> None:
    with pytest.raises(ZeroDivisionError), held("box"):
        raise ZeroDivisionError

    with held("box"):
        pass


def test_locks_of_different_names_do_not_meet() -> None:
    with held("box"), held("crate"):
        pass


def test_as_many_jobs_as_there_is_capacity_get_in() -> None:
    with ExitStack() as stack:
        places = [stack.enter_context(held("box", capacity=2)) for _ in range(2)]
        assert [0, 1] == [place.instance for place in places]
        with pytest.raises(TestbedError, match="in use"):
            stack.enter_context(held("box", capacity=2))


def test_lock_is_free_after_its_holder_was_killed(folder: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(RESOURCES)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as holder:
        assert holder.stdout is not None
        assert "held\n" == holder.stdout.readline()
        with pytest.raises(TestbedError, match="in use by nightly"), held("box"):
            pass
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()

        with held("box"):
            pass


def test_child_of_the_holder_goes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    with held("box"):
        monkeypatch.setenv(lock.HELD, "box")
        with held("box") as place:
            assert Place(-1) == place
        monkeypatch.setenv(lock.HELD_INSTANCE, "3")
        with held("box") as place:
            assert Place(-1, 3) == place


def test_child_of_the_holder_of_another_lock_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(lock.HELD, "crate")
    with held("box"), pytest.raises(TestbedError, match="in use"), held("box"):
        pass


def test_a_child_that_inherits_the_place_holds_it() -> None:
    with held("box") as place:
        child = subprocess.Popen(["sleep", "60"], pass_fds=(place.descriptor,))
    try:
        with pytest.raises(TestbedError, match="in use"), held("box"):
            pass
    finally:
        child.kill()
        child.wait()

    with held("box"):
        pass


def test_another_users_file_is_locked_and_its_text_left_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with held("box", owner="nightly"):
        pass
    before = (folder / "perftrend-box.0.lock").read_text()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)

    with held("box", owner="weekly"), pytest.raises(TestbedError, match="in use by nightly"), held("box"):
        pass
    assert before == (folder / "perftrend-box.0.lock").read_text()


def test_a_link_in_the_place_of_the_file_is_refused(folder: Path) -> None:
    target = folder / "elsewhere"
    target.write_text("precious")
    (folder / "perftrend-box.0.lock").symlink_to(target)

    with pytest.raises(OSError, match="symbolic links"), held("box"):
        pass
    assert "precious" == target.read_text()


def test_a_link_to_nothing_is_refused(folder: Path) -> None:
    (folder / "perftrend-box.0.lock").symlink_to(folder / "elsewhere")

    with pytest.raises(OSError, match="symbolic links"), held("box"):
        pass
    assert not (folder / "elsewhere").exists()
