"""Result and progress of a search."""

from __future__ import annotations

from dataclasses import dataclass

from perftrend.errors import SettingsError
from perftrend.measure.search.trials import first_doubt
from perftrend.measurement import Interval, Phase, Step, Trial

__all__ = ["Phase", "SearchResult", "Step", "TrialProgress"]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One interval per loss ratio, and every trial behind them."""

    loss_ratios: tuple[float, ...]
    intervals: tuple[Interval, ...]
    """In the order of ``loss_ratios``."""
    phases: tuple[Phase, ...]
    """The phases that were begun, in the order of time."""
    needed_passes: int = 1
    """The number of trials of a bound that had to pass for it to pass."""

    def interval(self, loss_ratio: float) -> Interval:
        """Return the interval that contains the rate of a loss ratio.

        :raises SettingsError: if that loss ratio was not searched for.
        """
        if loss_ratio not in self.loss_ratios:
            known = ", ".join(f"{ratio:g}" for ratio in self.loss_ratios)
            raise SettingsError(f"loss ratio {loss_ratio!r} was not searched for; the search was for {known}")
        return self.intervals[self.loss_ratios.index(loss_ratio)]

    def conditional_throughput_pps(self, loss_ratio: float) -> float:
        """Return the rate that the device forwards if the lower bound of a loss ratio is offered.

        The worst trials of the final duration at that rate, as many as may fail, are left out. The worst
        remaining trial gives the fraction that is forwarded. If one trial decides, it is the trial that
        passed.

        :raises SettingsError: if that loss ratio was not searched for, or if it has no valid lower bound that
            was measured for the final duration.

        Source: "Multiple Loss Ratio Search" (an Internet-Draft of the IETF's BMWG), section
        Conditional Throughput.
        """
        interval = self.interval(loss_ratio)
        longest = max(phase.duration_s for phase in self.phases)
        losses = sorted(
            trial.loss_ratio
            for trial in self.trials
            if trial.rate_pps == interval.lower and trial.duration_s == longest
        )
        if interval.invalid or len(losses) < self.needed_passes:
            raise SettingsError(f"loss ratio {loss_ratio!r} has no lower bound: {interval.invalid}")
        return interval.lower * (1.0 - losses[self.needed_passes - 1])

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All trials, in the order of time."""
        return tuple(trial for phase in self.phases for trial in phase.trials)

    @property
    def elapsed_s(self) -> float:
        """The time that the trials took."""
        return sum(trial.elapsed_s for trial in self.trials)

    @property
    def is_any_found(self) -> bool:
        """Whether any interval is valid."""
        return any(not interval.invalid for interval in self.intervals)

    @property
    def invalid(self) -> str:
        """Why the first invalid trial is not valid; empty if all trials are valid.

        The reason why the bounds of an interval are not valid is part of the interval.
        """
        return first_doubt(self.trials)


@dataclass(frozen=True, slots=True)
class TrialProgress:
    """Progress of a search, reported after each trial."""

    phase: str
    """The name of the phase, as in :class:`Phase`."""
    loss_ratios: tuple[float, ...]
    intervals: tuple[Interval, ...]
    """In the order of ``loss_ratios``; empty while nothing is known."""
    elapsed_s: float
    """The time that the trials took."""
    seconds_left: float
    """The estimated time of the remaining trials."""
