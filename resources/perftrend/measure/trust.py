"""A trial that cannot be trusted is marked so and measured again, up to a limit.

A trial must be of the intended rate, or it proves nothing of that rate. A search allows a deviation of a
fifth of its width, so that what it finds lies where it says.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence

from perftrend.measure.interfaces import TrafficGenerator
from perftrend.measure.search.trials import ended_early, passes
from perftrend.measure.watch import CoreWatch
from perftrend.model import Trial

WIDTH_PART = 0.2
"""Of the width of a search: by so much at most the rate that was reached may be off the intended one."""
EXACT = 0.001
"""That for the usual width, 0.5 %: for what has no width of its own, but asks for one rate."""
OVERLOAD = 0.05
"""For MRR: what comes back of an overload does not depend on how large it is."""
_ENDS = 2
"""A trial ends between two frames: so many more or fewer say nothing of its rate."""
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

    def measure(
        self,
        rate_pps: float,
        duration_s: float,
        fail_above: float | None = None,
        *,
        deviation: float = EXACT,
    ) -> Trial:
        """Measure once, and again while the trial cannot be trusted.

        :param deviation: by which part of it the rate that is reached may be off the intended one.
        :returns: the first trial that can be trusted, or the last one with its reason.
        """
        for attempt in range(self._attempts):
            time.sleep(pause_s(attempt))
            watch = CoreWatch(self._processes())
            with watch.watching():
                trial = self._generator.trial(rate_pps, duration_s, fail_above)
            doubt = trial.invalid or watch.foreign or off_rate(trial, rate_pps, fail_above, deviation)
            trial = dataclasses.replace(trial, invalid=doubt)
            self.trials.append(trial)
            if not trial.invalid:
                break
        return trial


def off_rate(trial: Trial, rate_pps: float, fail_above: float | None, deviation: float) -> str:
    """Say that a trial was not of the rate that was asked for; empty if it was, or if that decides nothing.

    A trial at less than the intended rate that loses too much says that the intended rate does so, too.

    :param fail_above: the loss ratio above which a trial fails for certain; None if there is none.
    :param deviation: what is allowed, as a part of the rate.
    """
    if not trial.sending_s and ended_early(trial):
        return ""
    expected_pps = rate_pps / max(1, len(trial.sent_each))
    shares = [reached_pps / expected_pps for reached_pps in trial.sent_each_pps]
    furthest = max(shares, key=lambda share: abs(share - 1))
    frames = min(trial.sent_each or (trial.sent,))
    if not frames or abs(furthest - 1) <= deviation + _ENDS / frames:
        return ""
    if max(shares) <= 1 and fail_above is not None and not passes(trial, fail_above):
        return ""
    return f"the generator reached {100 * furthest:.4g} % of the intended rate of {rate_pps:.0f} pps"
