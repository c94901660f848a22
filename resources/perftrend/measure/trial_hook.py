"""An action while the traffic of a trial runs: it reads counters, or reconfigures the device.

The action runs in a thread, which must not disturb the trial. It uses cores that neither the generator nor
the device has. If the machine has no others, it uses those of the device: programs that configure a device
are part of it, but a generator that has to wait does not reach its rate.
"""

from __future__ import annotations

import contextlib
import os
import resource
import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor


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
