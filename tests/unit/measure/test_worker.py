from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from perftrend.errors import TestbedError
from perftrend.measure.program import WorkerProcess, dies_with_parent, python_module

READY = "import json, os, sys, time, signal\nprint(json.dumps({'ready': os.getpid()}), flush=True)\n"
ECHO = READY + "for line in sys.stdin: print(line.upper() if 'loud' in line else line, end='', flush=True)"


@contextmanager
def worker(script: str, *, ready_s: float = 20.0) -> Iterator[WorkerProcess]:
    with closing(WorkerProcess("the echo", [sys.executable, "-c", script], ready_s=ready_s)) as started:
        yield started


def lives(pid: int) -> bool:
    """Tell whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def ended(pid: int) -> bool:
    end = time.monotonic() + 10
    while lives(pid) and time.monotonic() < end:
        time.sleep(0.005)
    return not lives(pid)


def test_a_worker_that_is_ready_is_known_by_its_process() -> None:
    with worker(ECHO) as echo:
        assert lives(echo.pid)


def test_each_request_has_its_answer() -> None:
    with worker(ECHO) as echo:
        assert [{"number": number} for number in range(3)] == [
            echo.request({"number": number}, 10) for number in range(3)
        ]


def test_a_worker_that_does_not_get_ready_is_ended_and_its_last_words_are_told() -> None:
    with (
        pytest.raises(TestbedError, match="the echo has ended: no such port"),
        worker("import sys; print('starting', file=sys.stderr); sys.exit('no such port')"),
    ):
        pass


def test_a_worker_that_dies_is_told_with_its_last_words() -> None:
    script = READY + "sys.stdin.readline(); sys.exit('the cable is cut')"
    with (
        worker(script) as dying,
        pytest.raises(TestbedError, match=r"^the echo has ended: the cable is cut$"),
    ):
        dying.request({"frame": "64B"}, 10)


def test_a_dead_worker_is_told_at_every_request() -> None:
    with worker(READY) as dead:
        assert ended(dead.pid)
        for _ in range(2):
            with pytest.raises(TestbedError, match="the echo has ended"):
                dead.request({}, 10)


def test_a_worker_that_does_not_answer_is_told_after_its_time() -> None:
    with (
        worker(READY + "time.sleep(60)") as mute,
        pytest.raises(TestbedError, match=r"the echo did not respond within 0\.05 s"),
    ):
        mute.request({}, 0.05)


def test_an_answer_that_comes_too_late_is_not_taken_for_the_next_ones() -> None:
    script = (
        READY + "sys.stdin.readline(); time.sleep(0.1); print('{\"late\": 1}', flush=True); time.sleep(60)"
    )
    with worker(script) as slow:
        with pytest.raises(TestbedError, match="did not respond"):
            slow.request({}, 0.01)
        time.sleep(0.2)

        with pytest.raises(TestbedError, match="has ended"):
            slow.request({}, 10)


def test_words_that_are_no_answer_are_told() -> None:
    with (
        worker(
            READY + "sys.stdin.readline(); print('Segmentation fault', flush=True); time.sleep(60)"
        ) as odd,
        pytest.raises(TestbedError, match="the echo wrote 'Segmentation fault'"),
    ):
        odd.request({}, 10)


def test_a_command_that_does_not_exist_is_named() -> None:
    with pytest.raises(TestbedError, match="the echo: cannot start /no/such/program"):
        WorkerProcess("the echo", ["/no/such/program"])


def forbidden(_: int) -> int:
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


@pytest.mark.parametrize("has_pidfd", [True, False])
def test_closing_kills_a_worker_that_does_not_listen(
    monkeypatch: pytest.MonkeyPatch, has_pidfd: bool
) -> None:
    monkeypatch.setattr("perftrend.measure.program._STOP_S", 0.1)
    if not has_pidfd:
        monkeypatch.setattr(os, "pidfd_open", forbidden)
    script = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + READY + "time.sleep(60)"
    with worker(script) as deaf:
        deaf.close()

        assert not lives(deaf.pid)


@pytest.mark.parametrize("has_pidfd", [True, False])
def test_worker_that_listens_ends_by_itself(monkeypatch: pytest.MonkeyPatch, has_pidfd: bool) -> None:
    if not has_pidfd:
        monkeypatch.setattr(os, "pidfd_open", forbidden)
    with worker(ECHO) as echo:
        echo.close()

        assert -signal.SIGTERM == echo._process.returncode


def test_closing_is_allowed_twice() -> None:
    with worker(ECHO) as echo:
        echo.close()
        echo.close()

        assert not lives(echo.pid)


def test_a_module_runs_in_this_very_python() -> None:
    done = subprocess.run(python_module("platform", ["--terse"]), capture_output=True, check=False)

    assert 0 == done.returncode
    assert done.stdout


def test_a_worker_dies_when_its_parent_is_killed() -> None:
    child = dies_with_parent([sys.executable, "-c", READY + "time.sleep(60)"])
    parent = f"import subprocess, time\nsubprocess.Popen({child!r})\ntime.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        pid = int(killed.stdout.readline().partition(":")[2].strip(" }\n"))
        assert lives(pid)

        os.kill(killed.pid, signal.SIGKILL)

        assert ended(pid)


def test_answer_to_a_request_that_was_interrupted_is_not_taken_for_the_next_ones() -> None:
    """As by the timeout of a test, which Robot Framework raises at any place."""

    def interrupt(*_: object) -> None:
        raise TimeoutError

    script = READY + (
        "for line in sys.stdin:\n"
        "    if json.loads(line)['number'] == 1: os.kill(os.getppid(), signal.SIGALRM)\n"
        "    print(line, end='', flush=True)\n"
    )
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with worker(script) as echo:
            with pytest.raises(TimeoutError):
                echo.request({"number": 1}, 10)

            assert [{"number": 2}, {"number": 3}] == [
                echo.request({"number": number}, 10) for number in (2, 3)
            ]
    finally:
        signal.signal(signal.SIGALRM, before)
