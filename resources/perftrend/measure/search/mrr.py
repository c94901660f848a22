"""MRR: the maximum receive rate when the link is fully loaded, regardless of loss.

Source: "Continuous Performance Trending and Analysis", section Performance Trending: send at
link rate, count the received packets, divide by the trial period; loss is not limited.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from perftrend.measure.search.parameters import require, require_positive
from perftrend.measure.search.trials import Measure, first_doubt, perform
from perftrend.measurement import Trial


@dataclass(frozen=True, slots=True)
class MrrResult:
    """The trials of an MRR test."""

    trials: tuple[Trial, ...]
    """In the order of time."""

    @property
    def samples(self) -> tuple[float, ...]:
        """The receive rate of each trial, in pps."""
        return tuple(trial.receive_rate_pps for trial in self.trials)

    @property
    def invalid(self) -> str:
        """Why the first invalid trial is not valid; empty if all trials are valid.

        A device that forwards nothing has not been set up, or is broken: 0 pps is not its speed.
        """
        is_silent = any(trial.sent and not trial.received for trial in self.trials)
        return first_doubt(self.trials) or ("the device forwarded no frame of a trial" if is_silent else "")


def measure_mrr(
    measure: Measure,
    *,
    rate_pps: float,
    duration_s: float,
    multiplicity: int,
    starts: int = 1,
    restart: Callable[[], object] | None = None,
) -> MrrResult:
    """Measure the maximum receive rate several times, over one or several starts of the device.

    The rate of a software device differs slightly after each start, often by more than between the trials of
    one start. Trials over several starts show that spread.

    :param measure: as in ``mdr_search``; no trial ends early.
    :param rate_pps: the link rate.
    :param duration_s: duration of every trial.
    :param multiplicity: number of trials, at least 1.
    :param starts: number of starts that the trials are spread over, as evenly as possible (the
        first ones have one more); from 1 to ``multiplicity``. The device is already started.
    :param restart: restarts the device; required if ``starts`` is above 1.
    :raises SettingsError: naming the invalid parameter.
    """
    require_positive("rate_pps", rate_pps)
    require_positive("duration_s", duration_s)
    require(multiplicity >= 1, "multiplicity", multiplicity, "at least 1 trial")
    require(1 <= starts <= multiplicity, "starts", starts, f"from 1 to multiplicity, {multiplicity!r}")
    require(starts == 1 or restart is not None, "restart", restart, f"a way to make {starts} starts")
    trials: list[Trial] = []
    for start in range(starts):
        if start and restart is not None:
            restart()
        share = multiplicity // starts + (start < multiplicity % starts)
        trials += [perform(measure, rate_pps, duration_s, None) for _ in range(share)]
    return MrrResult(tuple(trials))
