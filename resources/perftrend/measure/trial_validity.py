"""Trials: actions while their traffic runs, and which of them are valid.

An action reads counters, or reconfigures the device. It runs in a thread, which must not disturb the trial.
It uses cores that neither the generator nor the device has. If the machine has no others, it uses those
of the device: programs that configure a device are part of it, but a generator that has to wait does not
reach its rate.

Invalid trials are detected, marked and measured again, up to a limit.

A trial must be at the intended rate, otherwise it proves nothing about that rate. A search allows a deviation
of a fifth of its width, so that the bounds that it finds are accurate.

A trial must also be free of interference by other work. The generator and the device each need a core of
their own. The kernel counts how long a process was ready to run but waited for its core, and how long the
host withheld cores from this machine. In both cases a trial measured something other than the device.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import resource
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from operator import sub
from pathlib import Path

from perftrend.measure.interfaces import Counters, Device, TrafficGenerator
from perftrend.measure.search.trials import has_ended_early, passes
from perftrend.measurement import GeneratorHealth, Trial

WIDTH_PART = 0.2
"""Largest deviation of the rate reached from the intended rate, as a fraction of a search's width."""
EXACT = 0.001
"""Largest relative deviation of measurements at one rate, without a width: that of a width of 0.5 %."""
OVERLOAD = 0.05
"""Largest relative deviation for MRR: the receive rate in overload does not depend on the rate sent."""
_EVEN = (0.5, 0.5)
_ENDS = 2
"""A trial ends between two frames: this many frames more or fewer do not indicate a wrong rate."""
_PAUSE_S = 0.2
"""Pause before a trial is repeated, so that a disturbance can end; each further pause is longer."""

MOST_FOREIGN = 0.03
"""Waiting for more than this fraction of a trial is not explained by timer ticks."""
_LEAST_S = 0.01
"""Time that a process may wait in any trial, however short: a few time slices of the scheduler."""
BUSY = 0.95
"""A generator that is busy for more than this fraction of the time may be too slow for the rate."""
_OWN_CORE = 0.9
"""From this fraction on, what a generator lacks of its core is mostly used by the kernel."""

_NOT_COUNTED = (0.0, 0.0)


class TrialHook:
    """An action that runs during a trial.

    :param action: an exception of it fails the test. Only this thread may use the device in the meantime.
    :param begin: the fraction of the trial's duration after which it begins.
    :param prepare: called before the trial is repeated, such as to undo the action.
    """

    def __init__(
        self, action: Callable[[], None], *, begin: float, prepare: Callable[[], None] = lambda: None
    ) -> None:
        self._action = action
        self._begin = begin
        self._cores: Collection[int] = ()
        self._ran_s = 0.0
        self.prepare = prepare
        self.has_finished = False
        """Whether the action ended before the traffic did."""

    @contextlib.contextmanager
    def observe(
        self, duration_s: float, *, device: Collection[int], generator: Collection[int]
    ) -> Iterator[None]:
        """Run the action while the block runs, and wait for its end. It never begins after the block.

        :param duration_s: the duration of the trial; if 0, the action ends before the block begins.
        :param device: the cores of the device.
        :param generator: the cores of the generator.
        """
        has_ended = threading.Event()
        self._ran_s = 0.0
        if device or generator:
            allowed = os.sched_getaffinity(0)
            self._cores = allowed - {*device, *generator} or allowed - {*generator} or allowed
        with ThreadPoolExecutor(1, "trial-hook") as executor:
            action = executor.submit(self._run, has_ended, self._begin * duration_s)
            try:
                if not duration_s:
                    action.result()
                yield
            finally:
                self.has_finished = action.done()
                has_ended.set()
            action.result()

    def _run(self, has_ended: threading.Event, delay_s: float) -> None:
        if has_ended.wait(delay_s):
            return
        if self._cores:
            os.sched_setaffinity(0, self._cores)  # of this thread, and of the processes that it starts
        before_s = _cpu_s()
        try:
            self._action()
        finally:
            self._ran_s = _cpu_s() - before_s

    def ran_s(self, cores: Collection[int]) -> float:
        """Return how long the action, with its processes, has used these cores at most."""
        return self._ran_s if self._cores and not {*self._cores}.isdisjoint(cores) else 0.0


def _cpu_s() -> float:
    """Return the CPU time of this thread, and of the processes that this one has started and waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.thread_time() + children.ru_utime + children.ru_stime


def pause_s(attempt: int) -> float:
    """Return the pause before an attempt at a trial, in seconds; the first attempt has number 0."""
    return attempt * _PAUSE_S


class TrustedTrials:
    """Trials of a generator, each repeated until it is valid.

    :param generator: runs the trials.
    :param processes: returns the processes that need exclusive use of their cores.
    :param attempts: maximum number of times that one trial is measured.
    :param device: counts its work in each trial; if it has ended, the trial raises a TestbedError.
    :param is_simulated: whether trials take no time, so that a hook runs before the trial.
    """

    def __init__(
        self,
        generator: TrafficGenerator,
        processes: Callable[[], Sequence[int]],
        *,
        attempts: int,
        device: Device | None = None,
        is_simulated: bool = False,
    ) -> None:
        self._generator = generator
        self._processes = processes
        self._attempts = attempts
        self._device = device
        self._is_simulated = is_simulated
        self._shares: Sequence[float] = _EVEN
        self.trials: list[Trial] = []
        """Every trial since :meth:`begin_test`, including those that were measured again."""
        self.device_counters: list[Counters] = []
        """What the device counted in each of them."""

    def begin_test(self, shares: Sequence[float] = _EVEN) -> None:
        """Start a new list of trials.

        :param shares: the fraction of the frames that are sent in each direction.
        """
        self._shares = shares
        self.trials = []
        self.device_counters = []

    def measure(
        self,
        rate_pps: float,
        duration_s: float,
        fail_above: float | None = None,
        *,
        deviation: float = EXACT,
        hook: TrialHook | None = None,
    ) -> Trial:
        """Measure once, and again while the trial is not valid.

        :param deviation: largest deviation of the rate reached, as a fraction of the intended rate.
        :param hook: runs during the trial, and again if the trial is repeated.
        :returns: the first valid trial, or the last one with the reason why it is not valid.
        """
        for attempt in range(self._attempts):
            time.sleep(pause_s(attempt))
            if hook and attempt:
                hook.prepare()
            if self._device:
                self._device.begin_trial()
            processes = self._processes()
            watch = CoreWatch(processes, hook)
            with watch.observe(), self._run_hook(hook, duration_s, processes):
                trial = self._generator.trial(rate_pps, duration_s, fail_above)
            if self._device:
                self._device.verify_running()
            doubt = (
                trial.invalid
                or watch.foreign
                or off_rate(trial, rate_pps, fail_above, deviation, self._shares)
            )
            trial = dataclasses.replace(trial, invalid=doubt)
            self.trials.append(trial)
            self.device_counters.append(self._device.trial_counters() if self._device else {})
            if not trial.invalid:
                break
        return trial

    def _run_hook(
        self, hook: TrialHook | None, duration_s: float, processes: Sequence[int]
    ) -> AbstractContextManager[None]:
        if hook is None:
            return contextlib.nullcontext()
        # Without processes on this machine, there are no cores to spare either.
        generator = set(self._generator.busy_processes()) & set(processes)
        return hook.observe(
            0.0 if self._is_simulated else duration_s,
            device=_cores_of(set(processes) - generator),
            generator=_cores_of(generator),
        )


def off_rate(
    trial: Trial,
    rate_pps: float,
    fail_above: float | None,
    deviation: float,
    shares: Sequence[float] = _EVEN,
) -> str:
    """Return a message if a trial missed the intended rate; empty if it did not or if that decides nothing.

    A trial below the intended rate that loses too much proves that the intended rate does so, too.

    :param fail_above: the loss ratio above which a trial fails; None if there is no limit.
    :param deviation: the largest deviation allowed, as a fraction of the rate.
    :param shares: the fraction of the frames that are sent in each direction.
    """
    if not trial.sending_s and has_ended_early(trial):
        return ""
    intended = shares if trial.sent_each else (1.0,)
    directions = [
        (sent, reached_pps / (share * rate_pps))
        for sent, reached_pps, share in zip(
            trial.sent_each or (trial.sent,), trial.sent_each_pps, intended, strict=True
        )
        if share
    ]
    furthest = max((reached for _, reached in directions), key=lambda reached: abs(reached - 1))
    frames = min(sent for sent, _ in directions)
    if not frames or abs(furthest - 1) <= deviation + _ENDS / frames:
        return ""
    if (
        max(reached for _, reached in directions) <= 1
        and fail_above is not None
        and not passes(trial, fail_above)
    ):
        return ""
    reached = f"the generator reached {100 * furthest:.4g} % of the intended rate of {rate_pps:.0f} pps"
    # What makes a generator slow does not explain one that is too fast.
    return reached + (explain_slowness(trial.generator_health, trial.unsent) if furthest < 1 else "")


def explain_slowness(health: GeneratorHealth | None, unsent: int | None = None) -> str:
    """Return why a generator was slow, as the end of a message that begins with that; empty if not known.

    :param unsent: the number of frames that it failed to send.
    """
    known = health or GeneratorHealth()
    reasons = []
    if unsent:
        reasons.append(f"it did not send {unsent:,} frames")
    if known.queue_full:
        reasons.append(f"its queue was full {known.queue_full:,} times")
    if known.load is not None and known.load > BUSY:
        reasons.append(f"it was busy for {100 * known.load:.0f} % of the time")
    if known.core_share is not None and known.core_share < _OWN_CORE:
        reasons.append(f"it had its core for only {100 * known.core_share:.0f} % of the time")
    return f": {', '.join(reasons)}" if reasons else ""


class CoreWatch:
    """A monitor of processes that must not wait for their cores.

    Waiting for the testbed's own work is harmless: for a kernel thread that is watched as well and shares the
    core, for ``ksoftirqd``, which under overload delivers frames on the core of the process that sent them,
    and for a hook that shares the core. Any further waiting is due to other work.
    """

    def __init__(self, processes: Sequence[int], hook: TrialHook | None = None) -> None:
        self._processes = processes
        self._hook = hook
        self._same_core = {process: _find_on_same_core(process, processes) for process in processes}
        self.foreign = ""
        """The interference in the last watched block; empty if it was undisturbed."""

    @contextlib.contextmanager
    def observe(self) -> Iterator[CoreWatch]:
        """Watch while the block runs; :attr:`foreign` then describes any interference."""
        cores = _cores_of(self._processes)
        begin, waited, stolen = time.monotonic(), self._foreign_waits_s(), _stolen_s(cores)
        self.foreign = ""
        yield self
        elapsed = time.monotonic() - begin
        waits = map(sub, self._foreign_waits_s(), waited)
        seen = {
            "another process used the cores": max(map(sub, waits, self._hook_s()), default=0.0),
            "the host withheld the cores": _stolen_s(cores) - stolen,
        }
        for what, seconds in seen.items():
            if seconds > max(_LEAST_S, MOST_FOREIGN * elapsed):
                self.foreign = f"{what} for {seconds / elapsed:.0%} of the trial"

    def _foreign_waits_s(self) -> list[float]:
        """Return the seconds that each process has waited for work other than the testbed's own."""
        return [
            _wait_time_s(process) - sum(_ran_s(other) for other in self._same_core[process])
            for process in self._processes
        ]

    def _hook_s(self) -> list[float]:
        """Return the seconds that the hook has used the core of each process in the watched block."""
        return [self._hook.ran_s(_cores(process)) if self._hook else 0.0 for process in self._processes]


def _ran_s(process: int) -> float:
    ran_s, _ = schedstat(process) or _NOT_COUNTED
    return ran_s


def _wait_time_s(process: int) -> float:
    _, waited_s = schedstat(process) or _NOT_COUNTED
    return waited_s


def _find_on_same_core(process: int, watched: Sequence[int]) -> list[int]:
    """Return the testbed's own processes on the core that a process is pinned to."""
    cores = _cores(process)
    if len(cores) != 1:
        return []
    threads = [thread for core, thread in _packet_threads().items() if core in cores]
    return threads + [other for other in watched if other != process and _cores(other) == cores]


def _cores_of(processes: Iterable[int]) -> set[int]:
    return {core for process in processes for core in _cores(process)}


def _cores(process: int) -> set[int]:
    try:
        return os.sched_getaffinity(process)
    except OSError:
        return set()  # It has ended.


def schedstat(process: int) -> tuple[float, float] | None:
    """Return the seconds that a process has run, and has been ready but not running.

    :returns: None if the process has ended or the kernel does not count.
    """
    try:
        ran, waited, _ = Path(f"/proc/{process}/schedstat").read_text().split()
    except (OSError, ValueError):
        return None
    return int(ran) / 1e9, int(waited) / 1e9


@functools.cache
def _packet_threads() -> dict[int, int]:
    """Return the ID of the process ``ksoftirqd/N`` of each core N; empty if a container hides them."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            name, _, core = path.read_text().strip().partition("/")
        except OSError:
            continue  # It ended in the meantime.
        if name == "ksoftirqd":
            found[int(core)] = int(path.parent.name)
    return found


def _stolen_s(cores: Collection[int]) -> float:
    """Return the steal time of some cores in seconds, which the host gave to other virtual machines."""
    names = {f"cpu{core}" for core in cores}
    try:
        lines = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
        return sum(int(fields[8]) for fields in lines if fields[0] in names) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        return 0.0


def two_cores(named: Collection[int] = ()) -> tuple[int | None, int | None]:
    """Choose one core each for generator and device, on different physical cores if possible.

    :param named: cores that one of the two has already: the other one gets another.
    :returns: two cores that this process may use; None and None if it has only one.
    """
    allowed = sorted(os.sched_getaffinity(0) - set(named), reverse=True)
    in_use = {_siblings(core) for core in named}
    physical: dict[str, int] = {}
    for core in allowed:
        if (siblings := _siblings(core)) not in in_use:
            physical.setdefault(siblings, core)
    chosen = list(physical.values())
    chosen += [core for core in allowed if core not in chosen]
    if named and chosen:
        return chosen[0], chosen[0]
    return (chosen[1], chosen[0]) if len(chosen) > 1 else (None, None)


def _siblings(core: int) -> str:
    try:
        return Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return str(core)
