"""The observations of a machine while a command runs, on simulated machines."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from perftrend.builds.observation import (
    Gauges,
    Observer,
    Pulse,
    Usage,
    measure_pulse,
    pin_to_cores,
    read_usage,
)

STEADY = {0: 1.0, 1: 1.0}
STAT = """\
cpu  300 30 60 900 20 5 7 40 11 0
cpu0 100 10 20 500 10 2 3 30 11 0
cpu1 200 20 40 400 10 3 4 10 0 0
intr 5 5
"""
HERTZ = os.sysconf("SC_CLK_TCK")


@dataclass
class Machine:
    """A machine whose cores have a speed each, and where a command runs for as long as one says.

    :param speeds: by core, how long its pulse takes, in milliseconds.
    """

    speeds: dict[int, float] = field(default_factory=lambda: dict(STEADY))
    counts: bool = True
    """Whether it counts how its cores are used."""
    pins: list[set[int]] = field(default_factory=list)
    pulses: list[int] = field(default_factory=list)
    sleeps: list[float] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    used_by_others: dict[int, float] = field(default_factory=dict)
    """How many times as long a pulse takes on a core because of others."""
    after_sleeps: list[dict[int, float]] = field(default_factory=list)
    """The speeds after each sleep, as far as they change."""
    now_s: float = 50.0
    commands_s: float = 3.0
    user_s: float = 2.0
    used: dict[int, Usage] = field(default_factory=dict)

    def observer(self, *, one_core: bool = True) -> Observer:
        gauges = Gauges(
            cores=lambda: set(self.speeds),
            pin=self.pin,
            pulse=self.pulse,
            usage=self.usage,
            commands_s=lambda: self.commands_s,
            user_s=lambda: self.user_s,
            monotonic=lambda: self.now_s,
            sleep=self.sleep,
        )
        return Observer(one_core=one_core, warn=self.warnings.append, gauges=gauges)

    def pulse(self, core: int) -> Pulse:
        self.pulses.append(core)
        cpu_s = self.speeds[core] / 1000
        return Pulse(cpu_s, cpu_s * self.used_by_others.get(core, 1.0))

    @contextmanager
    def pin(self, cores: Collection[int]) -> Iterator[None]:
        self.pins.append(set(cores))
        yield

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now_s += seconds
        self.speeds = self.after_sleeps.pop(0) if self.after_sleeps else self.speeds

    def usage(self) -> Mapping[int, Usage]:
        return {core: self.used.get(core, Usage(7.0, 7.0)) for core in self.speeds} if self.counts else {}

    def run(self, elapsed_s: float, *, others_s: float = 0.0, stolen_s: float = 0.0) -> None:
        """Let a command run on the first core that it may use, and others at the same time."""
        core = min(self.pins[-1])
        before = self.used.get(core, Usage(7.0, 7.0))
        self.used[core] = Usage(before.busy_s + elapsed_s + others_s, before.stolen_s + stolen_s)
        self.commands_s += elapsed_s
        self.user_s += 0.9 * elapsed_s
        self.now_s += elapsed_s + others_s + stolen_s


def attempts(machine: Machine, observer: Observer, *slow_after: bool, others_s: float = 0.0) -> int:
    """Return how often a command is started that its core changes its speed during, each time as said."""
    count = 0
    for count in observer.attempts():
        with observer.observe():
            machine.run(1.0, others_s=others_s)
            core = min(machine.pins[-1])
            machine.speeds[core] *= 1.6 if slow_after[count - 1] else 1.0
    return count


def test_command_on_a_steady_machine_runs_once() -> None:
    machine = Machine()
    observer = machine.observer()

    assert 1 == attempts(machine, observer, False)
    assert "" == observer.seen.disturbed
    pulses, used = "pulses 1.000, 1.000 ms before and 1.000 ms after", "others used 0.00 s, the host 0.00 s"
    assert f"cores 1; {pulses}; 1.00 s, {used}" == str(observer.seen)


def test_time_of_the_command_in_user_space_is_seen() -> None:
    machine = Machine({0: 1.0})
    observer = machine.observer()

    with observer.observe():
        machine.run(1.0, others_s=1.0, stolen_s=0.5)

    assert pytest.approx(0.9) == observer.seen.user_s


def test_command_is_repeated_while_the_machine_changes_its_speed() -> None:
    machine = Machine({0: 1.0})
    observer = machine.observer()

    assert 2 == attempts(machine, observer, True, False)
    assert "" == observer.seen.disturbed
    assert [
        "the machine changed its speed: core 0 was 1.60 times as slow after it as before; measuring again"
    ] == machine.warnings
    assert 0.2 == machine.sleeps[0]


def test_what_disturbs_all_the_time_is_no_reason_to_repeat_until_a_start_is_without_it() -> None:
    machine = Machine({0: 1.0})
    observer = machine.observer()

    made = [attempts(machine, observer, *slow) for slow in ([True] * 3, [True], [False], [True] * 3)]

    assert [3, 1, 1, 3] == made
    assert 2 == sum(each.endswith("; it is used anyway") for each in machine.warnings)
    assert 4 == sum(each.endswith("; measuring again") for each in machine.warnings)


def test_another_disturbance_than_the_usual_one_is_a_reason_to_repeat() -> None:
    machine = Machine({0: 1.0})
    observer = machine.observer()
    busy = partial(attempts, machine, observer, others_s=1.0)

    made = [busy(*slow) for slow in ([False] * 3, [False], [True, False])]

    assert [3, 1, 2] == made
    assert "other programs used its cores for 50% of the time" == observer.seen.disturbed


@pytest.mark.parametrize(
    ("after", "disturbed"),
    [
        (1.19, ""),
        (1.21, "the machine changed its speed: core 0 was 1.21 times as slow after it as before"),
        (0.84, ""),
        (0.8, "the machine changed its speed: core 0 was 1.25 times as fast after it as before"),
    ],
)
def test_speed_that_changed_by_more_than_pulses_scatter_is_a_disturbance(
    after: float, disturbed: str
) -> None:
    machine = Machine({0: 1.0})
    observer = machine.observer()

    with observer.observe():
        machine.speeds[0] = after

    assert disturbed == observer.seen.disturbed


@pytest.mark.parametrize(
    ("speeds", "core"),
    [
        ([{0: 1.6, 1: 1.0}], 1),
        ([{0: 1.0, 1: 1.6}], 0),
        ([{0: 1.6, 1: 1.0}, {0: 1.0, 1: 1.1}], 1),
        ([{0: 1.6, 1: 1.0}, {0: 1.0, 1: 1.6}], 0),
        ([{0: 1.6, 1: 1.0}, {0: 1.0}], 0),
    ],
    ids=["fast 1", "fast 0", "about as fast", "no longer fast", "gone"],
)
def test_command_runs_on_the_fast_core_and_stays_there_while_it_is_about_as_fast(
    speeds: list[dict[int, float]], core: int
) -> None:
    machine = Machine()
    observer = machine.observer()

    for each in speeds:
        machine.speeds = each
        with observer.observe():
            pass

    assert {core} == machine.pins[-1]


def test_command_waits_until_a_core_is_as_fast_as_one_was() -> None:
    machine = Machine()
    observer = machine.observer()
    with observer.observe():
        machine.speeds = {0: 1.6, 1: 1.6}
    machine.after_sleeps = [{0: 1.6, 1: 1.6}, {0: 1.1, 1: 1.6}]

    with observer.observe():
        pass

    assert [0.1, 0.1] == machine.sleeps
    assert {0} == machine.pins[-1]


def test_machine_that_stays_slower_is_waited_for_once() -> None:
    machine = Machine()
    observer = machine.observer()
    with observer.observe():
        machine.speeds = {0: 1.6, 1: 1.6}

    waits = []
    for _ in range(2):
        with observer.observe():
            waits.append(sum(machine.sleeps))

    assert pytest.approx([3.0, 3.0], abs=0.15) == waits


def test_fast_core_that_others_use_is_better_than_a_slow_one() -> None:
    machine = Machine({0: 1.6, 1: 1.0}, used_by_others={1: 3.0})
    observer = machine.observer()

    with observer.observe():
        pass

    assert [{1}] == machine.pins


def test_command_leaves_a_core_that_others_begin_to_use() -> None:
    machine = Machine()
    observer = machine.observer()

    for used in ({0: 2.0}, {1: 2.0}):
        machine.used_by_others = used
        with observer.observe():
            pass

    assert [{1}, {0}] == machine.pins


@pytest.mark.parametrize(
    ("elapsed_s", "others_s", "stolen_s", "disturbed"),
    [
        (9.6, 0.4, 0.0, ""),
        (9.0, 1.0, 0.0, "other programs used its cores for 10% of the time"),
        (9.6, 0.0, 0.4, ""),
        (8.0, 0.0, 2.0, "the host withheld its cores for 20% of the time"),
        (0.1, 0.04, 0.0, ""),
        (0.1, 0.1, 0.0, "other programs used its cores for 50% of the time"),
        (
            2.0,
            1.0,
            1.0,
            "other programs used its cores for 25% of the time; "
            "the host withheld its cores for 25% of the time",
        ),
    ],
)
def test_others_that_used_the_core_are_a_disturbance_above_their_limits(
    elapsed_s: float, others_s: float, stolen_s: float, disturbed: str
) -> None:
    machine = Machine()
    observer = machine.observer()

    with observer.observe():
        machine.run(elapsed_s, others_s=others_s, stolen_s=stolen_s)

    assert disturbed == observer.seen.disturbed


def test_others_on_another_core_disturb_nobody() -> None:
    machine = Machine({0: 1.0, 1: 1.6})
    observer = machine.observer()

    with observer.observe():
        machine.run(1.0)
        machine.used[1] = Usage(99.0, 99.0)

    assert "" == observer.seen.disturbed


def test_command_on_all_cores_is_disturbed_by_a_change_of_any() -> None:
    machine = Machine({0: 1.0, 1: 1.6})
    observer = machine.observer(one_core=False)

    with observer.observe():
        machine.speeds[1] = 1.0

    assert [{0, 1}] == machine.pins
    assert "the machine changed its speed: core 1 was 1.60 times as fast after it as before" == (
        observer.seen.disturbed
    )
    assert [] == machine.warnings


def test_time_of_others_is_a_share_of_all_cores_that_a_command_may_use() -> None:
    machine = Machine(dict.fromkeys(range(4), 1.0))
    observer = machine.observer(one_core=False)

    with observer.observe():
        machine.run(8.0)
        machine.used[3] = Usage(7.0 + 8.0, 7.0)

    assert "other programs used its cores for 25% of the time" == observer.seen.disturbed


def test_machine_that_counts_nothing_is_observed_by_pulses_alone() -> None:
    machine = Machine({0: 1.0}, counts=False)
    observer = machine.observer()

    assert 2 == attempts(machine, observer, True, False)


@pytest.mark.parametrize(("cores", "notices"), [([0], 0), ([0, 1], 1)])
def test_pinning_is_announced_once_where_there_is_a_choice(cores: list[int], notices: int) -> None:
    machine = Machine(dict.fromkeys(cores, 1.0))
    observer = machine.observer()

    for _ in range(3):
        attempts(machine, observer, False)

    assert [
        "the command runs on one core; the parameter cores=all (measure.cores) lets it use several"
    ] * notices == (machine.warnings)


def test_pulses_are_measured_on_eight_cores_at_most() -> None:
    machine = Machine(dict.fromkeys(range(64), 1.0))
    observer = machine.observer()

    with observer.observe():
        before = list(machine.pulses)

    assert list(range(63, 55, -1)) == before
    assert 1 == len(machine.pulses) - len(before)


def test_error_of_the_command_ends_the_observation() -> None:
    machine = Machine()
    observer = machine.observer()

    with pytest.raises(OSError, match="no such program"), observer.observe():
        raise OSError("no such program")


class SwitchingMachine(Machine):
    """A machine whose cores switch between two speeds, 1.6 apart, each in phases of its own.

    :param phase_s: how long a phase lasts, on average.
    """

    def __init__(self, seed: int, *, phase_s: float) -> None:
        super().__init__()
        random = np.random.default_rng(seed)
        lasts_s = random.exponential(phase_s, (len(STEADY), 50_000))
        self.ends_s = lasts_s.cumsum(axis=1)

    def slowness(self, core: int) -> float:
        """Return how many times as long as at best something takes on a core now."""
        phase = int(np.searchsorted(self.ends_s[core], self.now_s))
        return 1.6 if phase % 2 else 1.0

    def pulse(self, core: int) -> Pulse:
        cpu_s = 0.001 * self.slowness(core)
        self.now_s += 6 * cpu_s
        return Pulse(cpu_s, cpu_s)

    def compute(self, core: int, work_s: float) -> float:
        """Return how long something takes on a core that takes so long at best."""
        began = self.now_s
        for _ in range(50):
            self.now_s += work_s / 50 * self.slowness(core)
        return self.now_s - began


@pytest.mark.parametrize("phase_s", [1.0, 3.0])
def test_measurements_of_a_machine_with_two_speeds_are_nearly_all_of_the_fast_one(phase_s: float) -> None:
    """Either core is slow half of the time, and a measurement takes 0.2 s at best."""
    machine = SwitchingMachine(7, phase_s=phase_s)
    observer = machine.observer()
    observed, starts = [], 0
    plain = [machine.compute(0, 0.2) for _ in range(1000)]
    for _ in range(1000):
        for _ in observer.attempts():
            starts += 1
            with observer.observe():
                took_s = machine.compute(min(machine.pins[-1]), 0.2)
        observed.append(took_s)

    slow, slow_observed = (np.mean(np.array(took) > 1.2 * 0.2) for took in (plain, observed))
    assert 0.3 < slow
    assert slow_observed < 0.05
    assert starts < 1.3 * 1000


def test_usage_of_cores_is_read_from_the_kernel_s_counts(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text(STAT)

    usage = read_usage(tmp_path / "stat")

    assert {0: Usage(135 / HERTZ, 30 / HERTZ), 1: Usage(267 / HERTZ, 10 / HERTZ)} == {
        core: Usage(pytest.approx(each.busy_s), each.stolen_s) for core, each in usage.items()
    }


@pytest.mark.parametrize("text", ["cpu0 1 2 3\n", "cpu0 1 2 3 x 5 6 7 8\n", "cpuinfo\n", ""])
def test_counts_of_another_form_are_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "stat").write_text(text)

    assert {} == read_usage(tmp_path / "stat")


def test_machine_without_counts_has_none(tmp_path: Path) -> None:
    assert {} == read_usage(tmp_path / "stat")


def test_pulse_of_this_machine_takes_time_and_leaves_the_cores_as_they_were() -> None:
    before = os.sched_getaffinity(0)

    pulse = measure_pulse(min(before))

    assert 0 < pulse.cpu_s
    assert 0 < pulse.elapsed_s
    assert before == os.sched_getaffinity(0)


def test_cores_are_pinned_in_the_block_alone() -> None:
    before = os.sched_getaffinity(0)

    with pin_to_cores({min(before)}):
        inside = os.sched_getaffinity(0)

    assert ({min(before)}, before) == (inside, os.sched_getaffinity(0))
