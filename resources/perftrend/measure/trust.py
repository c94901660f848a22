"""A trial that cannot be trusted is marked so and measured again, up to a limit."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence

from perftrend.measure.interfaces import TrafficGenerator
from perftrend.measure.watch import CoreWatch
from perftrend.model import Trial

_PAUSE_S = 0.2
"""What disturbed a trial is given a moment to end, and then a longer one."""


def pause_s(attempt: int) -> float:
    """Return how long is waited before an attempt at a trial, the first of which is attempt 0."""
    return attempt * _PAUSE_S


class TrustedTrials:
    """Asks a generator for trials until one can be trusted.

    :param generator: what sends.
    :param processes: returns the processes that must have their cores to themselves.
    :param attempts: how often at most one trial is measured.
    """

    def __init__(
        self, generator: TrafficGenerator, processes: Callable[[], Sequence[int]], *, attempts: int
    ) -> None:
        self._generator = generator
        self._processes = processes
        self._attempts = attempts
        self.trials: list[Trial] = []
        """Every trial since :meth:`forget`, those that were measured again included."""

    def forget(self) -> None:
        """Begin a new list of trials."""
        self.trials = []

    def measure(self, rate_pps: float, duration_s: float, fail_above: float | None = None) -> Trial:
        """Measure once, and again while the trial cannot be trusted.

        :returns: the first trial that can be trusted, or the last one with its reason.
        """
        for attempt in range(self._attempts):
            time.sleep(pause_s(attempt))
            watch = CoreWatch(self._processes())
            with watch.watching():
                trial = self._generator.trial(rate_pps, duration_s, fail_above)
            if not trial.invalid and watch.foreign:
                trial = dataclasses.replace(trial, invalid=watch.foreign)
            self.trials.append(trial)
            if not trial.invalid:
                break
        return trial
