"""Observation of a machine during a measurement: the speed of its cores, and their use by other programs.

A core of a shared machine switches between speeds, mostly because its sibling thread works for another
guest, and its frequency changes. Neither is counted anywhere, and the CPU time of the command is increased
accordingly. So a fixed loop of a few milliseconds, a pulse, is timed on the core before and after the
command: if its speed changed by more than pulses differ on a steady core, the command ran at two speeds. A
change that was undone before the end is not detected.

Before the command starts, a pulse on each core shows which one is the fastest at the moment, and the command
is pinned to it. If all are slower than a core has been, it waits for up to three seconds. It stays on the
core of the previous command unless another core is clearly faster, so that successive measurements are of one
core.
"""

from __future__ import annotations

import math
import os
import resource
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

LARGEST_CHANGE = 1.2
"""Above this ratio of two pulses a core changed its speed. On two cores of a busy shared machine, half of the
pulses were within 1.02 of the one just before and three of four within 1.05; the speeds were 1.6 apart."""
LARGEST_SHARE = 0.05
"""Above this fraction of the time, others used the core by more than the occasional task of the kernel."""
_TICKS_S = 0.05
"""The possible error of the counts of the kernel: some are rounded to 10 ms, and others sampled."""
_ATTEMPTS = 3
_PAUSE_S = 0.2
"""The pause for a disturbance to end; it becomes longer with each attempt."""
_LONGEST_WAIT_S = 3.0
"""For a core to become fast: on a shared machine most slow phases are over then, or another core is fast."""
_LOOK_AGAIN_S = 0.1
_LARGEST_NUMBER_OF_CORES = 8
"""More cores are not compared: that would take longer than it gains."""
_STEPS = 10_000
"""The steps of a loop, which takes about a millisecond."""
_STEADY = 5
"""A pulse ends after this number of loops in a row that were not faster than one before: until then the
frequency of an idle core may rise."""
_LONGEST = 60
"""The most loops of a pulse."""
_FASTER = 0.98

_STAT = Path("/proc/stat")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_IDLE, _IOWAIT, _STEAL = 3, 4, 7
"""Columns of ``/proc/stat`` after the name of the core; those after steal are counted in others already."""


@dataclass(frozen=True, slots=True)
class Pulse:
    """The speed of a core at the moment."""

    cpu_s: float
    """The least CPU time of a loop: that one was not interrupted."""
    elapsed_s: float
    """The average time of a loop, including waiting for the core."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The time that a core has been used since the machine started, in seconds."""

    busy_s: float = 0.0
    stolen_s: float = 0.0
    """Time that the host did not give to this machine, although it had something to run."""


def measure_pulse(core: int) -> Pulse:
    """Time loops on a core until they get no faster."""
    cpu_s, elapsed_s = [math.inf], [math.inf]
    steady = 0
    with pin_to_cores({core}):
        while steady < _STEADY and len(cpu_s) <= _LONGEST:
            began, ran = time.perf_counter(), time.thread_time()
            _loop()
            took = time.thread_time() - ran
            steady = 0 if took < _FASTER * min(cpu_s) else steady + 1
            cpu_s.append(took)
            elapsed_s.append(time.perf_counter() - began)
    return Pulse(min(cpu_s), sum(elapsed_s[-_STEADY:]) / _STEADY)


def _loop() -> int:
    value = 1
    for _ in range(_STEPS):
        value = (value * 1_103_515_245 + 12_345) & 0x7FFFFFFF
    return value


@contextmanager
def pin_to_cores(cores: Collection[int]) -> Iterator[None]:
    """Let this thread, and the processes that it starts meanwhile, use these cores alone."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def read_usage(stat: Path = _STAT) -> Mapping[int, Usage]:
    """Return the usage of each core; an empty mapping if this machine does not count it."""
    try:
        lines = [line.split() for line in stat.read_text().splitlines()]
        return {
            int(name.removeprefix("cpu")): _usage([int(count) / _TICKS_PER_S for count in counts])
            for name, *counts in lines
            if name.startswith("cpu") and name != "cpu"
        }
    except (OSError, ValueError, IndexError):
        return {}


def _usage(columns: list[float]) -> Usage:
    own = sum(columns[:_STEAL]) - columns[_IDLE] - columns[_IOWAIT]
    return Usage(own, columns[_STEAL])


def _available_cores() -> Collection[int]:
    return os.sched_getaffinity(0)


def _of_children_s() -> float:
    """Return the CPU time of the commands that have ended, and of all that they have waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _user_time_of_children_s() -> float:
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime


@dataclass(frozen=True, slots=True)
class Gauges:
    """The readings of a machine; tests replace them."""

    cores: Callable[[], Collection[int]] = _available_cores
    pin: Callable[[Collection[int]], AbstractContextManager[None]] = pin_to_cores
    pulse: Callable[[int], Pulse] = measure_pulse
    usage: Callable[[], Mapping[int, Usage]] = read_usage
    commands_s: Callable[[], float] = _of_children_s
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    user_s: Callable[[], float] = _user_time_of_children_s


@dataclass(frozen=True, slots=True)
class StartObservation:
    """The observations of one start of a command."""

    cores: Collection[int] = ()
    """The cores that it could use."""
    before: Mapping[int, Pulse] = field(default_factory=dict)
    """By core, including those that were not chosen."""
    after: Mapping[int, Pulse] = field(default_factory=dict)
    elapsed_s: float = 0.0
    others_s: float = 0.0
    """CPU time of other programs on its cores."""
    stolen_s: float = 0.0
    """Time that the host did not give to its cores."""
    user_s: float = 0.0
    """CPU time of the command and its processes in user space."""

    @property
    def disturbances(self) -> Mapping[str, str]:
        """What disturbed it, as text, by kind: ``speed``, ``others`` and ``host``."""
        total_s = self.elapsed_s * len(self.cores)
        found = {
            "speed": _change(self.before, self.after),
            "others": _share("other programs used", self.others_s, total_s),
            "host": _share("the host withheld", self.stolen_s, total_s),
        }
        return {kind: words for kind, words in found.items() if words}

    @property
    def disturbed(self) -> str:
        """All that disturbed it, as text; empty if nothing did."""
        return "; ".join(self.disturbances.values())

    def __str__(self) -> str:
        cores = ", ".join(map(str, sorted(self.cores)))
        pulses = f"{_milliseconds(self.before)} ms before and {_milliseconds(self.after)} ms after"
        used = f"others used {self.others_s:.2f} s, the host {self.stolen_s:.2f} s"
        line = f"cores {cores}; pulses {pulses}; {self.elapsed_s:.2f} s, {used}"
        return f"{line}: {self.disturbed}" if self.disturbed else line


class Observer:
    """Observes the commands of one product, one after the other.

    :param one_core: whether a command is pinned to a core; otherwise it may use all, and all are observed.
    :param warn: receives lines about what disturbed a command.
    """

    def __init__(self, *, one_core: bool, warn: Callable[[str], None], gauges: Gauges | None = None) -> None:
        self._one_core = one_core
        self._warn = warn
        self._gauges = gauges or Gauges()
        self._core: int | None = None
        self._fastest_s = math.inf
        self._in_a_row: dict[str, int] = {}
        """Starts up to the last one that were all disturbed, by kind."""
        self.seen = StartObservation()
        """The last start."""

    def attempts(self) -> Iterator[int]:
        """Yield 1, 2, 3 until a command, which is observed each time, was not disturbed.

        A disturbance of three starts in a row is usual on this machine, and does not cause a repetition until
        a start is without it.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            yield attempt
            is_usual = all(count >= _ATTEMPTS for count in self._in_a_row.values())
            if is_usual or attempt == _ATTEMPTS:
                break
            self._warn(f"{self.seen.disturbed}; measuring again")
            self._gauges.sleep(attempt * _PAUSE_S)
        if any(count <= _ATTEMPTS for count in self._in_a_row.values()):
            self._warn(f"{self.seen.disturbed}; it is used anyway")

    @contextmanager
    def observe(self) -> Iterator[None]:
        """Choose the cores for this thread and the processes that it starts, and observe them meanwhile."""
        gauges = self._gauges
        before = self._fast_pulses() if self._one_core else self._pulses()
        cores = self._choose(before) if self._one_core else gauges.cores()
        usage, commands_s, user_s, began = (
            gauges.usage(),
            gauges.commands_s(),
            gauges.user_s(),
            gauges.monotonic(),
        )
        with gauges.pin(cores):
            yield
        elapsed_s, commands_s = gauges.monotonic() - began, gauges.commands_s() - commands_s
        user_s = gauges.user_s() - user_s
        used = _difference(usage, gauges.usage(), cores)
        after = {core: gauges.pulse(core) for core in before if core in cores}
        others_s = max(0.0, used.busy_s - commands_s)
        self.seen = StartObservation(cores, before, after, elapsed_s, others_s, used.stolen_s, user_s)
        self._in_a_row = {kind: self._in_a_row.get(kind, 0) + 1 for kind in self.seen.disturbances}

    def _pulses(self) -> Mapping[int, Pulse]:
        """Return a pulse of each core; if there are many, of the last ones, as the first serve devices."""
        cores = sorted(self._gauges.cores(), reverse=True)[:_LARGEST_NUMBER_OF_CORES]
        return {core: self._gauges.pulse(core) for core in cores}

    def _fast_pulses(self) -> Mapping[int, Pulse]:
        """Return pulses as soon as a core is about as fast as the fastest one was, or after a time-out.

        If none was as fast until then, the machine has become slower, and the next command does not wait.
        """
        end = self._gauges.monotonic() + _LONGEST_WAIT_S
        while True:
            pulses = self._pulses()
            now_s = min(pulse.cpu_s for pulse in pulses.values())
            self._fastest_s = min(self._fastest_s, now_s)
            if now_s <= LARGEST_CHANGE * self._fastest_s:
                return pulses
            if self._gauges.monotonic() >= end:
                self._fastest_s = now_s
                return pulses
            self._gauges.sleep(_LOOK_AGAIN_S)

    def _choose(self, pulses: Mapping[int, Pulse]) -> Collection[int]:
        """Return the fast core that others use the least, or the previous one if it is about as good."""
        if self._core is None and len(pulses) > 1:
            self._warn(
                "the command runs on one core; the parameter cores=all (measure.cores) lets it use several"
            )
        fastest_s = min(pulse.cpu_s for pulse in pulses.values())
        took_s = {
            core: pulse.elapsed_s
            for core, pulse in pulses.items()
            if pulse.cpu_s <= LARGEST_CHANGE * fastest_s
        }
        best = min(took_s, key=lambda core: took_s[core])
        last = best if self._core is None else self._core
        self._core = last if took_s.get(last, math.inf) <= LARGEST_CHANGE * took_s[best] else best
        return {self._core}


def _difference(earlier: Mapping[int, Usage], later: Mapping[int, Usage], cores: Collection[int]) -> Usage:
    """Return the usage of cores between two readings; cores that are not counted contribute nothing."""
    pairs = [(earlier[core], later[core]) for core in cores if core in earlier and core in later]
    return Usage(
        sum(end.busy_s - begin.busy_s for begin, end in pairs),
        sum(end.stolen_s - begin.stolen_s for begin, end in pairs),
    )


def _change(before: Mapping[int, Pulse], after: Mapping[int, Pulse]) -> str:
    """Return the core that changed its speed the most, as text; empty if none did."""
    ratios = {core: after[core].cpu_s / before[core].cpu_s for core in after}
    core = max(ratios, key=lambda each: abs(math.log(ratios[each])), default=None)
    if core is None or abs(math.log(ratios[core])) <= math.log(LARGEST_CHANGE):
        return ""
    ratio = ratios[core]
    times = f"{ratio:.2f} times as slow" if ratio > 1 else f"{1 / ratio:.2f} times as fast"
    return f"the machine changed its speed: core {core} was {times} after it as before"


def _share(what: str, seconds: float, of_s: float) -> str:
    if seconds <= max(_TICKS_S, LARGEST_SHARE * of_s):
        return ""
    return f"{what} its cores for {seconds / of_s:.0%} of the time"


def _milliseconds(pulses: Mapping[int, Pulse]) -> str:
    return ", ".join(f"{1000 * pulse.cpu_s:.3f}" for _, pulse in sorted(pulses.items()))
