from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perftrend.measure import trial_validity
from perftrend.measure.trial_validity import CoreWatch, TrialHook, two_cores

BUSY = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nprint(flush=True)\nwhile True: pass"


@contextmanager
def busy(core: int) -> Iterator[int]:
    """Run a real process that does nothing but compute, on one core."""
    with subprocess.Popen([sys.executable, "-c", BUSY, str(core)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


def seen(process: int, seconds: float) -> str:
    with CoreWatch([process]).observe() as watched:
        time.sleep(seconds)
    return watched.foreign


def test_process_that_shares_its_core_with_another_busy_one_is_seen() -> None:
    core = min(os.sched_getaffinity(0))
    with busy(core) as watched, busy(core):
        assert "the cores for" in seen(watched, 1.0)


class Counts:
    """Stands in for the kernel's counts over trials of one second, one process being watched.

    :param waited: seconds that the process has waited, before and after each trial.
    :param stolen: seconds that the host has withheld, likewise.
    :param beside: seconds that the testbed's own work on the same core has run, likewise.
    """

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *,
        waited: list[float],
        stolen: list[float],
        beside: list[float] | None = None,
    ) -> None:
        counts = {1: [(0.0, wait) for wait in waited], 2: [(ran, 0.0) for ran in beside or []]}
        monkeypatch.setattr(trial_validity, "_find_on_same_core", lambda *_: [2] if beside else [])
        monkeypatch.setattr(trial_validity, "schedstat", lambda process: counts[process].pop(0))
        monkeypatch.setattr(trial_validity, "_stolen_s", lambda _: stolen.pop(0))
        monkeypatch.setattr(trial_validity, "time", self)
        self._now = 99.0

    def monotonic(self) -> float:
        self._now += 1.0
        return self._now


@pytest.mark.parametrize(
    ("waited", "stolen", "told"),
    [
        (0.0, 0.0, ""),
        (0.019, 0.0, ""),
        (0.25, 0.0, "another process used the cores for 25% of the trial"),
        (0.0, 0.029, ""),
        (0.0, 0.5, "the host withheld the cores for 50% of the trial"),
    ],
)
def test_waiting_and_withheld_cores_are_told_above_their_limits(
    waited: float, stolen: float, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By doubles of the kernel's counts over a trial of one second."""
    Counts(monkeypatch, waited=[3.0, 3.0 + waited], stolen=[7.0, 7.0 + stolen])

    with CoreWatch([1]).observe() as watched:
        pass

    assert told == watched.foreign


def test_cores_that_nothing_is_measured_on_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a remote testbed, whose processes are on other machines; by doubles of the kernel's counts."""
    lines = iter(["cpu0 0 0 0 0 0 0 0 700", "cpu0 0 0 0 0 0 0 0 800"])
    monkeypatch.setattr(Path, "read_text", lambda _: next(lines))

    with CoreWatch([]).observe() as watched:
        pass

    assert "" == watched.foreign
    assert [] == list(lines)


@pytest.mark.parametrize(("waited", "foreign"), [(0.4, False), (0.5, True)])
def test_waiting_for_the_testbeds_own_work_is_not_foreign(
    waited: float, foreign: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By doubles: the kernel's own thread ran for 0.4 s on the core of the process."""
    Counts(monkeypatch, waited=[3.0, 3.0 + waited], stolen=[7.0, 7.0], beside=[5.0, 5.4])

    with CoreWatch([1]).observe() as watched:
        pass

    assert foreign == bool(watched.foreign)


@pytest.mark.parametrize(("waited", "foreign"), [(0.4, False), (0.5, True)])
def test_waiting_for_a_hook_on_the_same_core_is_not_foreign(
    waited: float, foreign: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By doubles: the hook and its processes ran for 0.4 s on the core of the process."""
    Counts(monkeypatch, waited=[3.0, 3.0 + waited], stolen=[7.0, 7.0])
    monkeypatch.setattr(trial_validity, "_cores", lambda _: {5})
    hook = TrialHook(lambda: None, begin=0.5)
    monkeypatch.setattr(hook, "ran_s", lambda cores: 0.4 if 5 in cores else 0.0)

    with CoreWatch([1], hook).observe() as watched:
        pass

    assert foreign == bool(watched.foreign)


def test_process_that_has_nothing_to_do_does_not_wait_for_its_core() -> None:
    """However busy the machine is: the kernel counts the wait of processes that are ready to run."""
    with subprocess.Popen(["sleep", "60"]) as idle:
        try:
            assert "another process" not in seen(idle.pid, 0.3)
        finally:
            idle.kill()


def test_process_that_has_ended_is_no_error() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()

    assert "another process" not in seen(ended.pid, 0.01)


def test_each_watched_block_stands_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    Counts(monkeypatch, waited=[0.0, 0.5, 0.5, 0.5], stolen=[0.0] * 4)
    watched = CoreWatch([1])
    with watched.observe():
        pass
    assert watched.foreign

    with watched.observe():
        pass

    assert watched.foreign == ""


@pytest.mark.parametrize(
    ("allowed", "siblings", "chosen"),
    [
        ({0}, {}, (None, None)),
        ({0, 1}, {}, (0, 1)),
        ({0, 1, 2, 3}, {0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}, (1, 3)),
        ({2, 3}, {2: "2-3", 3: "2-3"}, (2, 3)),
    ],
    ids=["one core", "two cores", "two threads a core", "two threads of one core"],
)
def test_two_cores_are_different_and_if_possible_physically(
    allowed: set[int],
    siblings: dict[int, str],
    chosen: tuple[int | None, int | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: allowed)
    monkeypatch.setattr(trial_validity, "_siblings", lambda core: siblings.get(core, str(core)))

    assert chosen == two_cores()


@pytest.mark.parametrize(
    ("named", "chosen"), [({3}, 1), ({0}, 3), ({1, 2}, 3), ({0, 1, 2}, 3), ({0, 1, 2, 3}, None)]
)
def test_core_that_a_node_names_is_not_chosen_for_the_other(
    named: set[int], chosen: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads a core: 0 and 1, 2 and 3."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    monkeypatch.setattr(trial_validity, "_siblings", lambda core: "0-1" if core < 2 else "2-3")

    assert (chosen, chosen) == two_cores(named)


def test_only_the_cores_of_the_testbed_count_as_withheld(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "cpu{} 1 2 3 4 5 6 7 {} 0 0"
    lines = [line.format(" ", 900), *(line.format(n, 100 * n) for n in range(4))]
    (tmp_path / "stat").write_text("\n".join(lines))
    monkeypatch.setattr(trial_validity, "Path", lambda _: tmp_path / "stat")
    ticks = os.sysconf("SC_CLK_TCK")

    assert [0.0, 400 / ticks] == [trial_validity._stolen_s(cores) for cores in ((), (1, 3))]


def test_cores_of_this_machine_are_ones_that_may_be_used() -> None:
    generator, device = two_cores()

    assert {generator, device} <= os.sched_getaffinity(0) or generator is device is None
