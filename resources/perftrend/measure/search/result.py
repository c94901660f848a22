"""What a search found, and the way that it took."""

from __future__ import annotations

from dataclasses import dataclass

from perftrend.errors import SettingsError
from perftrend.measure.search.trials import first_doubt
from perftrend.model import Interval, Phase, Step, Trial

__all__ = ["Phase", "Progress", "SearchResult", "Step"]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One interval per loss ratio, and every trial behind them."""

    loss_ratios: tuple[float, ...]
    intervals: tuple[Interval, ...]
    """In the order of ``loss_ratios``."""
    phases: tuple[Phase, ...]
    """The phases that were begun, in the order of time."""
    needed_passes: int = 1
    """How many of the trials of a bound had to pass for it to pass."""

    def interval(self, loss_ratio: float) -> Interval:
        """Return where the rate of a loss ratio lies.

        :raises SettingsError: if that loss ratio was not searched for.
        """
        if loss_ratio not in self.loss_ratios:
            known = ", ".join(f"{ratio:g}" for ratio in self.loss_ratios)
            raise SettingsError(f"loss ratio {loss_ratio!r} was not searched for; searched were {known}")
        return self.intervals[self.loss_ratios.index(loss_ratio)]

    def conditional_throughput_pps(self, loss_ratio: float) -> float:
        """Return what the device forwards when it is offered the lower bound of a loss ratio.

        Of the trials of the final duration at that rate, those that may fail are left out, the worst
        ones; the worst that is left gives the share that comes back. Where one trial decides, that is
        the one that passed.

        :raises SettingsError: if that loss ratio was not searched for, or its lower bound was not
            measured for the final duration.

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
        """Why the first trial that cannot be trusted cannot; empty when all can.

        An interval says by itself what is wrong with its bounds.
        """
        return first_doubt(self.trials)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search has come, told after each trial."""

    phase: str
    """The name of the phase, as in :class:`Phase`."""
    loss_ratios: tuple[float, ...]
    intervals: tuple[Interval, ...]
    """In the order of ``loss_ratios``; empty while nothing is known."""
    elapsed_s: float
    """The time that the trials took."""
    seconds_left: float
    """The time that further trials are estimated to take."""
