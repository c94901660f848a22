"""Jobs that this machine runs: in order, one on each testbed, and whatever is killed."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perftrend.listener import supervisor
from perftrend.listener.runner import REPORT, CancelResult, LocalRunner
from perftrend.store import Store
from perftrend.store.requests import Request, Requests, RequestState

MOMENT = datetime(2026, 3, 2, tzinfo=UTC)
RESOURCES = Path(__file__).resolve().parents[3] / "resources"

NOTES = "import os, base64; print(base64.b64decode(os.environ['GERRIT_EVENT_COMMENT_TEXT']).decode())"
HANGS = "import time; print('runs', flush=True); time.sleep(3600)"
"""Stand-ins for a job; none of them measures anything."""


def request(key: str, testbed: str = "2n-clx") -> Request:
    return Request(
        key=key, change=1, patch_set=1, project="router", branch="master", revision="a" * 40,
        ref="refs/changes/01/1/1", review=key, comment=key, path=None, account="1", asked=MOMENT, place=0,
        line=f"perftest-{testbed} {key}", job="perftest", testbed=testbed, state=RequestState.WAITING,
        decided=MOMENT, answered=True,
    )  # fmt: skip


Make = Callable[..., LocalRunner]


class Place:
    """A store with requests, and an archive."""

    def __init__(self, folder: Path, requests: Requests, log: pytest.LogCaptureFixture) -> None:
        self.archive, self.requests = folder / "archives", requests
        self._log = log
        self.runners: list[LocalRunner] = []

    def runner(self, program: str = NOTES) -> LocalRunner:
        def command(_: Request) -> Sequence[str]:
            return [sys.executable, "-c", program]

        self.runners.append(
            LocalRunner(
                self.requests, archive=self.archive, settings={"PERFTREND_STORE": "s"}, command=command
            )
        )  # fmt: skip
        return self.runners[-1]

    @property
    def said(self) -> list[str]:
        return self._log.messages

    def folder(self, key: str) -> Path:
        return self.archive / supervisor.FOLDER / key

    def console(self, key: str) -> str:
        file = self.folder(key) / supervisor.CONSOLE
        return file.read_text() if file.exists() else ""

    def states(self) -> dict[str, str]:
        return {each.key: each.state.value for each in self.requests.in_states(*RequestState)}


@pytest.fixture
def place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[Place]:
    caplog.set_level(logging.INFO, "perftrend.listener")
    monkeypatch.setenv("PYTHONPATH", str(RESOURCES))
    with Store.open(tmp_path / "store.sqlite") as store:
        place = Place(tmp_path, store.requests, caplog)
        yield place
        for runner in place.runners:
            runner.close()


def until(condition: Callable[[], object]) -> None:
    """Wait for processes; the limit only ends a test that would hang."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_job_is_told_its_request_and_its_console_is_kept(place: Place) -> None:
    place.requests.add([request("k1")])
    runner = place.runner()

    until(lambda: not runner.tend())

    assert "perftest-2n-clx k1\n" == place.console("k1")
    (ended,) = place.requests.in_states(RequestState.ENDED)
    assert 0 == ended.exit_code
    assert "perftest-2n-clx k1: ended with exit code 0" == place.said[-1]


def test_each_request_has_a_report_of_its_own(place: Place) -> None:
    """What one testbed's job reports is not replaced by another one's."""
    place.requests.add([request("k1"), request("k2", "1n-veth")])
    runner = place.runner("import os; print(os.environ['PERFTREND_REPORT'])")

    until(lambda: not runner.tend())

    assert {f"{place.folder(key) / REPORT}\n" for key in ("k1", "k2")} == {
        place.console("k1"), place.console("k2")
    }  # fmt: skip


def test_exit_code_of_a_job_is_kept(place: Place) -> None:
    place.requests.add([request("k1")])
    runner = place.runner("raise SystemExit(4)")

    until(lambda: not runner.tend())

    assert [4] == [each.exit_code for each in place.requests.in_states(RequestState.ENDED)]


def test_testbed_has_one_job_at_a_time_and_another_one_does_not_wait(place: Place) -> None:
    place.requests.add([request("k1"), request("k2"), request("k3", "1n-veth")])
    runner = place.runner(HANGS)

    assert runner.tend()

    assert {"k1": "running", "k2": "waiting", "k3": "running"} == place.states()


def test_next_job_runs_when_the_one_before_has_ended(place: Place) -> None:
    place.requests.add([request("k1"), request("k2")])
    runner = place.runner()

    until(lambda: not runner.tend())

    assert {"k1": "ended", "k2": "ended"} == place.states()
    assert [True, True] == ["k1: running" in place.said[0], "k2: running" in place.said[2]]


def test_job_ends_with_a_listener_that_is_stopped_and_is_run_again_by_the_next(place: Place) -> None:
    place.requests.add([request("k1")])
    runner = place.runner(HANGS)
    runner.tend()
    until(lambda: "runs" in place.console("k1"))

    runner.close()
    assert not supervisor.is_held(place.folder("k1"))
    assert {"k1": "running"} == place.states()

    following = place.runner()
    until(lambda: not following.tend())
    assert {"k1": "ended"} == place.states()
    assert "runs\nperftest-2n-clx k1\n" == place.console("k1")


def killed_listener(place: Place, program: str) -> subprocess.Popen[bytes]:
    """Return the keeper that a listener left behind, which was killed."""
    place.requests.add([request("k1")])
    runner = place.runner(program)
    runner.tend()
    process = runner._running.pop("2n-clx").process
    assert process
    return process


def test_job_that_outlives_its_listener_is_waited_for_and_not_run_twice(place: Place) -> None:
    go = place.archive.with_name("go")
    waits = (
        f"import os, time\nprint('runs', flush=True)\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)"
    )
    process = killed_listener(place, waits)
    until(lambda: place.console("k1"))

    following = place.runner()
    assert following.tend()
    go.touch()
    process.wait()
    until(lambda: not following.tend())

    assert ("runs\n", {"k1": "ended"}) == (place.console("k1"), place.states())


def test_job_that_ended_while_nobody_listened_is_not_run_again(place: Place) -> None:
    killed_listener(place, "print('ran')").wait()

    following = place.runner()
    until(lambda: not following.tend())

    assert ("ran\n", {"k1": "ended"}) == (place.console("k1"), place.states())


def test_job_whose_keeper_was_killed_is_waited_for_and_then_run_again(place: Place) -> None:
    process = killed_listener(place, "import os, time; print(os.getpid(), flush=True); time.sleep(3600)")
    until(lambda: place.console("k1").endswith("\n"))
    job = int(place.console("k1"))
    process.kill()
    process.wait()

    following = place.runner()
    assert following.tend()
    assert ["perftest-2n-clx k1: running"] == [each.partition(";")[0] for each in place.said]
    os.kill(job, signal.SIGKILL)
    until(lambda: not following.tend())

    assert {"k1": "ended"} == place.states()
    assert place.console("k1").endswith("perftest-2n-clx k1\n")


def test_job_that_always_dies_is_given_up(place: Place) -> None:
    place.requests.add([request("k1")])
    runner = place.runner("import os, signal; os.kill(os.getppid(), signal.SIGKILL)")

    until(lambda: not runner.tend())

    assert [None] == [each.exit_code for each in place.requests.in_states(RequestState.ENDED)]
    assert "perftest-2n-clx k1: killed 3 times; given up" == place.said[-1]


def test_job_that_the_system_killed_is_run_again(place: Place) -> None:
    """As the kernel does with the largest process if memory runs out; the supervisor lives."""
    place.requests.add([request("k1")])
    mark = place.archive / "was-killed"
    runner = place.runner(
        f"import os, pathlib; mark = pathlib.Path({str(mark)!r}); first = not mark.exists(); mark.touch(); "
        "os.kill(os.getpid(), 9 if first else 0)"
    )

    until(lambda: not runner.tend())

    assert [0] == [each.exit_code for each in place.requests.in_states(RequestState.ENDED)]
    assert "perftest-2n-clx k1: was killed, and is run again" in place.said


def test_job_is_started_when_its_folder_can_be_made(place: Place) -> None:
    place.requests.add([request("k1"), request("k2", "1n-veth")])
    place.archive.mkdir()
    obstacle = place.archive / supervisor.FOLDER
    obstacle.touch()
    runner = place.runner()

    assert not runner.tend()
    assert not runner.tend()
    obstacle.unlink()
    until(lambda: not runner.tend())

    assert {"k1": "ended", "k2": "ended"} == place.states()
    assert [True, True] == ["cannot be started now: " in line for line in place.said[:2]]


CLEANS_UP = """
import signal, sys, time
def end(*_):
    print("cleaned up", flush=True)
    sys.exit(130)
signal.signal(signal.SIGTERM, end)
print("runs", flush=True)
time.sleep(3600)
"""


def cancel(place: Place, runner: LocalRunner, key: str) -> CancelResult:
    """Do what the listener does until the job has ended."""
    (found,) = [each for each in place.requests.in_states(*RequestState) if each.key == key]
    place.requests.change(found, state=RequestState.CANCELLING)
    cancelling = replace(found, state=RequestState.CANCELLING)

    def has_ended() -> bool:
        runner.tend()
        results.append(runner.cancel(cancelling))
        return results[-1] is not CancelResult.PENDING

    results: list[CancelResult] = []
    until(has_ended)
    return results[-1]


def test_cancelled_job_gets_a_signal_and_cleans_up(place: Place) -> None:
    place.requests.add([request("k1"), request("k2")])
    runner = place.runner(CLEANS_UP)
    runner.tend()
    until(lambda: "runs" in place.console("k1"))

    assert CancelResult.ABORTED == cancel(place, runner, "k1")

    assert "runs\ncleaned up\n" == place.console("k1")
    assert not supervisor.is_held(place.folder("k1"))
    assert {"k1": "cancelling", "k2": "running"} == place.states()


def test_waiting_job_that_is_cancelled_never_runs(place: Place) -> None:
    place.requests.add([request("k1"), request("k2")])
    runner = place.runner(CLEANS_UP)
    runner.tend()

    assert CancelResult.NEVER_BEGAN == cancel(place, runner, "k2")

    runner.tend()
    assert not place.folder("k2").exists()


def test_job_of_a_listener_that_was_killed_can_be_cancelled(place: Place) -> None:
    place.requests.add([request("k1")])
    first = place.runner(CLEANS_UP)
    first.tend()
    until(lambda: "runs" in place.console("k1"))

    assert CancelResult.ABORTED == cancel(place, place.runner(CLEANS_UP), "k1")

    assert "runs\ncleaned up\n" == place.console("k1")


def test_job_that_ends_before_it_is_cancelled_is_no_error(place: Place) -> None:
    place.requests.add([request("k1")])
    runner = place.runner("raise SystemExit(4)")
    runner.tend()
    until(lambda: supervisor.exit_code(place.folder("k1")) is not None)
    until(lambda: not supervisor.is_held(place.folder("k1")))

    assert CancelResult.HAD_ENDED == cancel(place, runner, "k1")

    (found,) = place.requests.in_states(RequestState.CANCELLING)
    assert 4 == found.exit_code


def test_duration_of_a_job_is_recorded(place: Place) -> None:
    place.requests.add([request("k1")])
    runner = place.runner()

    until(lambda: not runner.tend())

    (ended,) = place.requests.in_states(RequestState.ENDED)
    assert ended.began
    assert (ended.duration_s or 0) > 0
