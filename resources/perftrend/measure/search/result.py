"""What a search found, and the way that it took."""

from __future__ import annotations

from dataclasses import dataclass

from perftrend.errors import SettingsError
from perftrend.measure.search.trials import first_doubt
from perftrend.model import Interval, Trial


@dataclass(frozen=True, slots=True)
class Step:
    """One trial of a search."""

    trial: Trial
    reason: str
    """Why this rate was measured, such as ``lower bound of 0.005 exceeds it``."""
    intervals: tuple[Interval, ...]
    """What was known after the trial, one per loss ratio; empty in the initial phase."""


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of a search with one trial duration and one width goal."""

    name: str
    """``initial``, ``intermediate 1``, …, ``final``."""
    duration_s: float
    relative_width: float
    """The width goal relative to the upper bound."""
    steps: tuple[Step, ...]

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The trials of this phase, in the order of time."""
        return tuple(step.trial for step in self.steps)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One interval per loss ratio, and every trial behind them."""

    loss_ratios: tuple[float, ...]
    intervals: tuple[Interval, ...]
    """In the order of ``loss_ratios``."""
    phases: tuple[Phase, ...]
    """The phases that were begun, in the order of time."""

    def interval(self, loss_ratio: float) -> Interval:
        """Return where the rate of a loss ratio lies.

        :raises SettingsError: if that loss ratio was not searched for.
        """
        if loss_ratio not in self.loss_ratios:
            known = ", ".join(f"{ratio:g}" for ratio in self.loss_ratios)
            raise SettingsError(f"loss ratio {loss_ratio!r} was not searched for; searched were {known}")
        return self.intervals[self.loss_ratios.index(loss_ratio)]

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All trials, in the order of time."""
        return tuple(trial for phase in self.phases for trial in phase.trials)

    @property
    def elapsed_s(self) -> float:
        """The time that the trials took."""
        return sum(trial.elapsed_s for trial in self.trials)

    @property
    def invalid(self) -> str:
        """Why the first trial that cannot be trusted cannot; empty when all can.

        An interval says by itself what is wrong with its bounds.
        """
        return first_doubt(self.trials)
