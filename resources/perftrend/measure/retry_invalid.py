"""Detection of invalid trials, which are marked and measured again, up to a limit.

A trial must be at the intended rate, otherwise it proves nothing about that rate. A search allows a deviation
of a fifth of its width, so that the bounds that it finds are accurate.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence

from perftrend.measure.interfaces import TrafficGenerator
from perftrend.measure.interference import CoreWatch
from perftrend.measure.search.trials import has_ended_early, passes
from perftrend.model import Trial

WIDTH_PART = 0.2
"""Largest deviation of the rate reached from the intended rate, as a fraction of a search's width."""
EXACT = 0.001
"""Largest relative deviation of measurements at one rate, without a width: that of a width of 0.5 %."""
OVERLOAD = 0.05
"""Largest relative deviation for MRR: the receive rate in overload does not depend on the rate sent."""
_ENDS = 2
"""A trial ends between two frames: this many frames more or fewer do not indicate a wrong rate."""
_PAUSE_S = 0.2
"""Pause before a trial is repeated, so that a disturbance can end; each further pause is longer."""


def pause_s(attempt: int) -> float:
    """Return the pause before an attempt at a trial, in seconds; the first attempt has number 0."""
    return attempt * _PAUSE_S


class TrustedTrials:
    """Trials of a generator, each repeated until it is valid.

    :param generator: runs the trials.
    :param processes: returns the processes that need exclusive use of their cores.
    :param attempts: maximum number of times that one trial is measured.
    """

    def __init__(
        self, generator: TrafficGenerator, processes: Callable[[], Sequence[int]], *, attempts: int
    ) -> None:
        self._generator = generator
        self._processes = processes
        self._attempts = attempts
        self.trials: list[Trial] = []
        """Every trial since :meth:`forget`, including those that were measured again."""

    def forget(self) -> None:
        """Start a new list of trials."""
        self.trials = []

    def measure(
        self,
        rate_pps: float,
        duration_s: float,
        fail_above: float | None = None,
        *,
        deviation: float = EXACT,
    ) -> Trial:
        """Measure once, and again while the trial is not valid.

        :param deviation: largest deviation of the rate reached, as a fraction of the intended rate.
        :returns: the first valid trial, or the last one with the reason why it is not valid.
        """
        for attempt in range(self._attempts):
            time.sleep(pause_s(attempt))
            watch = CoreWatch(self._processes())
            with watch.observe():
                trial = self._generator.trial(rate_pps, duration_s, fail_above)
            doubt = trial.invalid or watch.foreign or off_rate(trial, rate_pps, fail_above, deviation)
            trial = dataclasses.replace(trial, invalid=doubt)
            self.trials.append(trial)
            if not trial.invalid:
                break
        return trial


def off_rate(trial: Trial, rate_pps: float, fail_above: float | None, deviation: float) -> str:
    """Return a message if a trial missed the intended rate; empty if it did not or if that decides nothing.

    A trial below the intended rate that loses too much proves that the intended rate does so, too.

    :param fail_above: the loss ratio above which a trial fails; None if there is no limit.
    :param deviation: the largest deviation allowed, as a fraction of the rate.
    """
    if not trial.sending_s and has_ended_early(trial):
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
