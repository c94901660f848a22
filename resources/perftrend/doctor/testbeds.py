"""Whether this user can measure on a testbed: its file, programs, namespaces and locks, and a quiet machine.

The machine is steady enough if its load, its steal time, and the speeds of its cores are. The use of the
cores is counted while this process sleeps, so it is that of other programs. Steal time is counted while loops
run on the cores, because a host withholds nothing from a machine that has nothing to run.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from perftrend import COMMAND, sandbox
from perftrend.builds.observation import LARGEST_CHANGE, LARGEST_SHARE, Gauges, Usage
from perftrend.doctor.check_results import Area, CheckResult
from perftrend.errors import PerftrendError, TestbedError, explain
from perftrend.measure import lock, specification
from perftrend.measure.specification import Specification
from perftrend.measure.testbed import Testbed
from perftrend.settings import Settings
from perftrend.text import format_count, share

_PROGRAMS = {
    "git": ("git", "to fetch and identify what is measured"),
    "ip": ("iproute2", "for testbeds in namespaces"),
    "tc": ("iproute2", "for 1n-kernel and 1n-xdp"),
    "nft": ("nftables", "for 1n-kernel and 1n-xdp"),
    "ethtool": ("ethtool", "for 1n-kernel and 1n-xdp"),
    "unshare": ("util-linux", "for testbeds in namespaces"),
    "nsenter": ("util-linux", "for testbeds in namespaces"),
}
"""The package of each program, and its use."""
_SSH = {"ssh": ("openssh-client", "for the events of Gerrit")}
_PACKAGE = re.compile(r"apt-get install ([a-z0-9.+-]+)")
_PREVENTS_NAMESPACES: Mapping[str, tuple[str, str]] = {
    "kernel/unprivileged_userns_clone": ("0", "kernel.unprivileged_userns_clone=1"),
    "kernel/apparmor_restrict_unprivileged_userns": ("1", "kernel.apparmor_restrict_unprivileged_userns=0"),
    "user/max_user_namespaces": ("0", "user.max_user_namespaces=15000"),
    "user/max_net_namespaces": ("0", "user.max_net_namespaces=15000"),
}
"""The values of kernel parameters that prevent network namespaces, and the value that permits them."""

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


def check_testbed(settings: Settings) -> Iterator[CheckResult]:
    """Check the testbed of the settings; no frame is sent.

    Its machines are only reached if its file names cores of them, to compare these with their ports.
    """
    yield _check_programs({**_PROGRAMS, **(_SSH if settings.gerrit.url else {})})
    yield _check_sandbox(is_trusted=settings.project.trusted)
    try:
        spec = specification.load(settings.testbed, settings.testbeds)
        testbed = Testbed(spec, device_options=settings.device_options)
        testbed.check()
    except PerftrendError as error:
        yield Area.TESTBED.fault(settings.testbed, str(error), "set testbed, or correct the testbed's file")
        return
    except ImportError as error:
        found = f"a driver of {settings.testbed} cannot be imported: {error}"
        yield Area.TESTBED.fault(settings.testbed, found, "install the package of the driver again")
        return
    yield _check_usable(testbed)
    yield _check_locks(spec)
    yield from _check_cores(testbed)


def _check_sandbox(*, is_trusted: bool) -> CheckResult:
    if is_trusted:
        found = "project.trusted is set: the code of changes under review can do all that a job can"
        return Area.MACHINE.warning("sandbox", found, "set project.trusted to false")
    try:
        launcher = sandbox.find_launcher()
    except TestbedError as error:
        found = f"changes under review cannot be built or measured: {error}"
        elsewhere = "use a machine that permits user namespaces, or set project.trusted to true"
        fix = elsewhere if shutil.which("bwrap") else "sudo apt-get install -y bubblewrap"
        return Area.MACHINE.warning("sandbox", found, fix)
    return Area.MACHINE.ok("sandbox", f"the code of changes under review is isolated by {launcher}")


def tolerates_load(settings: Settings) -> bool:
    """Return whether load on this machine does not disturb the testbed; False if its file is not valid."""
    try:
        return specification.load(settings.testbed, settings.testbeds).tolerates_load
    except PerftrendError:
        return False


def _check_programs(programs: Mapping[str, tuple[str, str]]) -> CheckResult:
    missing = [name for name in programs if not shutil.which(name)]
    if not missing:
        return Area.MACHINE.ok("programs", f"installed: {', '.join(programs)}")
    packages = sorted({programs[name][0] for name in missing})
    uses: dict[str, list[str]] = {}
    for name in missing:
        uses.setdefault(programs[name][1], []).append(name)
    found = "; ".join(f"{', '.join(names)} {use}" for use, names in uses.items())
    fix = _as_root(f"apt-get install -y {' '.join(packages)}")
    return Area.MACHINE.warning("programs", f"missing: {found}", fix)


def _check_usable(testbed: Testbed) -> CheckResult:
    name, fallback = testbed.spec.name, testbed.spec.fallback
    try:
        reason = testbed.unusable()
    except PerftrendError as error:
        reason = str(error)
    if not reason:
        return Area.TESTBED.ok(name, "this user can use it")
    fix = find_fix(reason)
    if fallback:
        return Area.TESTBED.warning(name, f"{reason}; {fallback} is used instead", fix)
    return Area.TESTBED.fault(name, reason, fix)


def find_fix(reason: str, proc: Path = Path("/proc")) -> str:
    """Return what makes a testbed usable, for the reason why it is not."""
    if found := _PACKAGE.search(reason):
        return _as_root(f"apt-get install -y {found[1]}")
    if "needs root" in reason:
        return f"sudo {COMMAND} trending"
    wrong = []
    for name, (value, permitted) in _PREVENTS_NAMESPACES.items():
        try:
            if (proc / "sys" / name).read_text().strip() == value:
                wrong.append(permitted)
        except OSError:
            continue
    if wrong:
        return _as_root(f"sysctl -w {' '.join(wrong)}")
    return "run it as root; in a container, add --cap-add=SYS_ADMIN --cap-add=NET_ADMIN"


def _check_locks(spec: Specification) -> CheckResult:
    what = f"{spec.name} lock"
    try:
        held = lock.holders(spec.lock, capacity=spec.places)
    except OSError as error:
        path = error.filename or f"{lock.FOLDER}/perftrend-{spec.lock}.0.lock"
        return Area.TESTBED.fault(what, explain(error), _as_root(f"rm {shlex.quote(str(path))}"))
    if not held:
        return Area.TESTBED.ok(what, "not in use")
    return Area.TESTBED.ok(what, f"in use by {', '.join(held)}; other jobs wait for it")


def _check_cores(testbed: Testbed) -> Iterator[CheckResult]:
    what = f"{testbed.spec.name} cores"
    try:
        found = testbed.find_distant_cores()
    except PerftrendError as error:
        yield Area.TESTBED.not_checked(what, str(error))
        return
    for each in found:
        yield Area.TESTBED.warning(what, str(each), f"choose one of the cores {each.better}")


def _as_root(command: str) -> str:
    return command if os.geteuid() == 0 else f"sudo {command}"


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


def check_machine(*, tolerates_load: bool) -> Iterator[CheckResult]:
    """Observe this machine for some seconds.

    :param tolerates_load: whether load on this machine cannot disturb a measurement.
    """
    if tolerates_load:
        reason = "load, steal time and speed do not matter: the testbed does not measure on this machine"
        yield Area.MACHINE.not_checked("load", reason)
        return
    yield from judge_machine(observe_machine(Gauges()))


def observe_machine(gauges: Gauges, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> MachineSample:
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


def judge_machine(sample: MachineSample) -> Iterator[CheckResult]:
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
