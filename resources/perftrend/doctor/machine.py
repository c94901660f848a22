"""Whether this machine is quiet and steady enough to measure on: load, steal time, and speeds of its cores.

The use of the cores is counted while this process sleeps, so it is that of other programs. Steal time is
counted while loops run on the cores, because a host withholds nothing from a machine that has nothing to run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from perftrend.builds.observation import LARGEST_CHANGE, LARGEST_SHARE, Gauges, Usage
from perftrend.doctor.check_results import Area, CheckResult
from perftrend.text import format_count, share

_IDLE_S = 1.0
_ROUNDS = 6
_PAUSE_S = 0.2
_MOST_CORES = 8
"""More cores are not timed; the last ones are those that a testbed uses."""
_CORES_OF_TESTBED = 2
_GOVERNORS = "devices/system/cpu/cpu{}/cpufreq/scaling_governor"
_SHOW_PROCESSES = "ps -eo pid,user,pcpu,args --sort=-pcpu | head"
_SET_GOVERNOR = "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
_OTHER_MACHINE = "no command on this machine helps: give it cores of its own, or measure on another one"


@dataclass(frozen=True, slots=True)
class MachineSample:
    """The readings of a machine over a few seconds."""

    cores: Sequence[int]
    """The cores that this process may use."""
    load: str = ""
    """The load averages of 1, 5 and 15 minutes; empty if the kernel does not show them."""
    others: float | None = None
    """Number of cores that other programs used; None if the kernel does not count it."""
    loops_s: Mapping[int, Sequence[float]] = field(default_factory=dict)
    """CPU time of the same loop, several times on each core."""
    stolen: float | None = None
    """Fraction of the time that the host withheld while the loops ran; None if it is not counted."""
    stolen_since_boot: float = 0.0
    """The same fraction of all the time that the machine had something to run."""
    governors: Mapping[int, str] = field(default_factory=dict)
    """What decides on the frequency of a core, by core; empty if this machine does not decide on it."""


def check(*, tolerates_load: bool) -> Iterator[CheckResult]:
    """Observe this machine for some seconds.

    :param tolerates_load: whether load on this machine cannot disturb a measurement.
    """
    if tolerates_load:
        reason = "load, steal time and speed do not matter: the testbed does not measure on this machine"
        yield Area.MACHINE.not_checked("load", reason)
        return
    yield from judge(observe(Gauges()))


def observe(gauges: Gauges, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> MachineSample:
    """Read the load, the use of the cores and their speeds; takes about two seconds."""
    cores = sorted(gauges.cores())
    timed = cores[-_MOST_CORES:]
    began, start = gauges.monotonic(), gauges.usage()
    gauges.sleep(_IDLE_S)
    idle_s, middle = gauges.monotonic() - began, gauges.usage()
    loops_s: dict[int, list[float]] = {core: [] for core in timed}
    busy_s = 0.0
    for number in range(_ROUNDS):
        gauges.sleep(_PAUSE_S if number else 0.0)
        for core in timed:
            began = gauges.monotonic()
            loops_s[core].append(gauges.pulse(core).cpu_s)
            busy_s += gauges.monotonic() - began
    end = gauges.usage()
    return MachineSample(
        cores,
        _read(proc / "loadavg").rpartition(" ")[0].rpartition(" ")[0],
        (_total(middle).busy_s - _total(start).busy_s) / idle_s if start and middle else None,
        loops_s,
        (_total(end).stolen_s - _total(middle).stolen_s) / busy_s if middle and end else None,
        _total(end).stolen_s / max(_total(end).busy_s + _total(end).stolen_s, 1.0),
        {core: governor for core in timed if (governor := _read(sys / _GOVERNORS.format(core)))},
    )


def judge(sample: MachineSample) -> Iterator[CheckResult]:
    """Yield what a sample shows."""
    yield _judge_load(sample)
    yield _judge_steal(sample)
    if sample.loops_s:
        yield _judge_speed(sample.loops_s)
    if sample.governors:
        yield _judge_governors(sample.governors)


def _judge_load(sample: MachineSample) -> CheckResult:
    cores = format_count(len(sample.cores), "core")
    if len(sample.cores) < _CORES_OF_TESTBED:
        found = f"{cores}: generator and device need one each, so trials will not be valid"
        return Area.MACHINE.warning("load", found, "give this machine a second core")
    if sample.others is None:
        return Area.MACHINE.not_checked("load", "the kernel does not count the use of the cores")
    found = f"other programs use {sample.others:.2f} of {cores}"
    if sample.load:
        found = f"{found}; load averages {sample.load}"
    if len(sample.cores) - sample.others < _CORES_OF_TESTBED - LARGEST_SHARE:
        return Area.MACHINE.warning("load", f"{found}; a testbed needs two idle ones", _SHOW_PROCESSES)
    return Area.MACHINE.ok("load", found)


def _judge_steal(sample: MachineSample) -> CheckResult:
    if sample.stolen is None:
        return Area.MACHINE.not_checked("steal", "the kernel does not count the time that a host withholds")
    found = (
        f"the host withholds {share(sample.stolen)} of the time now, "
        f"{share(sample.stolen_since_boot)} since the start"
    )
    if max(sample.stolen, sample.stolen_since_boot) > LARGEST_SHARE:
        return Area.MACHINE.warning("steal", f"{found}; trials are repeated, or not valid", _OTHER_MACHINE)
    return Area.MACHINE.ok("steal", found)


def _judge_speed(loops_s: Mapping[int, Sequence[float]]) -> CheckResult:
    everything = list(chain.from_iterable(loops_s.values()))
    ratio = max(everything) / min(everything)
    if ratio <= LARGEST_CHANGE:
        return Area.MACHINE.ok("speed", f"the speeds of the cores differ by at most {share(ratio - 1)}")
    changing = [f"core {core}" for core, each in loops_s.items() if max(each) > LARGEST_CHANGE * min(each)]
    what = f"the speed of {' and '.join(changing)} changes" if changing else "the speeds of the cores differ"
    found = f"{what} by a factor of {ratio:.2f}: results vary more, and a bisection measures longer"
    return Area.MACHINE.warning("speed", found, _OTHER_MACHINE)


def _judge_governors(governors: Mapping[int, str]) -> CheckResult:
    others = sorted(set(governors.values()) - {"performance"})
    if not others:
        return Area.MACHINE.ok("frequency", "the governor of all cores is performance")
    found = f"the governor {', '.join(others)} changes the frequency of cores during a trial"
    return Area.MACHINE.warning("frequency", found, _SET_GOVERNOR)


def _total(usage: Mapping[int, Usage]) -> Usage:
    return Usage(sum(each.busy_s for each in usage.values()), sum(each.stolen_s for each in usage.values()))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
