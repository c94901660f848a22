"""What runs during a trial: when it begins, on which cores, and what becomes of its failure."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import cast

import pytest

from perftrend.errors import TestbedError
from perftrend.measure import trial_validity
from perftrend.measure.interfaces import TrafficGenerator
from perftrend.measure.trial_validity import TrialHook, TrustedTrials
from perftrend.measurement import Trial

CORES = sorted(os.sched_getaffinity(0))
LONG_S = 1e6
"""A trial that lasts until the test ends it."""


class Generator:
    """Runs a function as each trial, and returns one that is invalid as many times as is given."""

    def __init__(self, run: Callable[[], object], invalid: int = 0) -> None:
        self._run = run
        self._invalid = invalid

    def trial(self, rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
        del fail_above
        self._run()
        self._invalid -= 1
        frames = round(rate_pps * duration_s)
        return Trial(rate_pps, duration_s, duration_s, frames, frames, "slow" if self._invalid >= 0 else "")

    def busy_processes(self) -> list[int]:
        return []


def trials(run: Callable[[], object], **options: bool) -> TrustedTrials:
    return TrustedTrials(cast(TrafficGenerator, Generator(run)), list, attempts=3, **options)


def alive() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("trial-hook")}


def test_action_runs_while_the_traffic_runs() -> None:
    """Each of both waits for the other: if one came first, both would wait in vain."""
    meeting = threading.Barrier(2, timeout=60)

    def meet() -> None:
        meeting.wait()

    hook = TrialHook(meet, begin=0.0)
    trials(meet).measure(10, LONG_S, hook=hook)

    assert set() == alive()


def test_action_that_outlasts_the_traffic_has_not_finished_but_ends_before_the_trial_counts() -> None:
    traffic_ended, ended = threading.Event(), []

    def act() -> None:
        traffic_ended.wait(60)
        ended.append(True)

    hook = TrialHook(act, begin=0.0)
    with hook.observe(LONG_S, device=(), generator=()):
        pass_on = threading.Timer(0.05, traffic_ended.set)
        pass_on.start()

    assert ([True], False) == (ended, hook.has_finished)


def test_action_never_begins_if_the_traffic_ends_first() -> None:
    hook = TrialHook(lambda: pytest.fail("it began"), begin=0.5)

    trials(lambda: None).measure(10, LONG_S, hook=hook)

    assert (False, set()) == (hook.has_finished, alive())


def test_failure_of_the_action_fails_the_test() -> None:
    failed = threading.Event()

    def fail() -> None:
        failed.set()
        raise TestbedError("no such route")

    with pytest.raises(TestbedError, match="no such route"):
        trials(lambda: failed.wait(60)).measure(10, LONG_S, hook=TrialHook(fail, begin=0.0))
    assert set() == alive()


def test_failure_of_the_trial_ends_an_action_that_waits() -> None:
    def fail() -> None:
        raise TestbedError("generator has ended")

    hook = TrialHook(lambda: pytest.fail("it began"), begin=0.5)
    with pytest.raises(TestbedError, match="generator has ended"):
        trials(fail).measure(10, LONG_S, hook=hook)
    assert set() == alive()


def test_action_precedes_a_trial_that_takes_no_time() -> None:
    order: list[str] = []
    hook = TrialHook(lambda: order.append("action"), begin=0.5)

    trials(lambda: order.append("trial"), is_simulated=True).measure(10, LONG_S, hook=hook)

    assert (["action", "trial"], True) == (order, hook.has_finished)


def test_action_is_repeated_with_its_trial_after_it_was_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_validity, "_PAUSE_S", 0.0)
    order: list[str] = []
    generator = Generator(lambda: order.append("trial"), invalid=1)
    hook = TrialHook(lambda: order.append("action"), begin=0.5, prepare=lambda: order.append("prepare"))
    trusted = TrustedTrials(cast(TrafficGenerator, generator), list, attempts=3, is_simulated=True)

    trusted.measure(10, 1.0, hook=hook)

    assert ["action", "trial", "prepare", "action", "trial"] == order


def used_cores(device: set[int], generator: set[int]) -> set[int]:
    """Return the cores of the action's processes, which must be those of its thread."""
    found: list[set[int]] = []

    def act() -> None:
        script = "import os; print(*os.sched_getaffinity(0))"
        printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        found.append(set(map(int, printed.stdout.split())))
        assert found[-1] == os.sched_getaffinity(0)

    with TrialHook(act, begin=0.0).observe(0.0, device=device, generator=generator):
        assert set(CORES) == os.sched_getaffinity(0)
    return found[0]


@pytest.mark.skipif(len(CORES) < 2, reason="needs two cores")
def test_action_avoids_the_cores_of_the_generator_and_if_possible_of_the_device() -> None:
    first, *others = CORES

    assert set(others) == used_cores({first}, set())
    assert {first} == used_cores({first}, set(others))
    assert set(CORES) == used_cores(set(CORES), set(CORES))
    assert set(CORES) == used_cores(set(), set())


@pytest.mark.skipif(len(CORES) < 2, reason="needs two cores")
def test_time_of_the_action_counts_only_on_its_own_cores() -> None:
    """It takes a tenth of a second of CPU time, however long it waits for a core."""
    first, *others = CORES
    script = "import time\nwhile time.process_time() < 0.1: pass"

    def act() -> None:
        subprocess.run([sys.executable, "-c", script], check=True)

    hook = TrialHook(act, begin=0.0)
    with hook.observe(0.0, device={first}, generator=set(others)):
        pass

    assert hook.ran_s({first}) >= 0.1
    assert 0.0 == hook.ran_s(others)
