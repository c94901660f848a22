"""Parameters of a search and their validation; errors name the invalid parameter.

Widths are compared and halved on a logarithmic scale: an interval (lower, upper) has the
logarithmic width ln(upper / lower), and a relative width (upper - lower) / upper of w corresponds to the
logarithmic width -ln(1 - w).

Source: "MDR Search", sections Input Parameters and Implementation Deviations (1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from perftrend.errors import SettingsError

FINEST_WIDTH = 1e-6
"""The smallest relative width allowed; below it the rounding of rates becomes visible."""

MOST_PHASES = 100

MOST_TRIALS_PER_BOUND = 1000

_SHORT = 1.0 - 1e-7
_NEAR = 1e-9


def log_width(relative_width: float) -> float:
    """Return the logarithmic width of a relative one; infinity for 1."""
    return -math.log1p(-relative_width) if relative_width < 1.0 else math.inf


def require(holds: bool, name: str, value: object, expected: str) -> None:
    """Raise an error for a parameter unless its condition holds.

    :raises SettingsError: naming the parameter, its value and the expected values.
    """
    if not holds:
        raise SettingsError(f"search parameter {name} is {value!r}; give {expected}")


def require_positive(name: str, value: float) -> None:
    """Raise an error unless a value is a finite number above 0."""
    require(0.0 < value < math.inf, name, value, "a finite number above 0")


def require_loss_ratio(name: str, value: float) -> None:
    """Raise an error unless a value is in [0, 1)."""
    require(0.0 <= value < 1.0, name, value, "a ratio from 0 to below 1, such as 0.005")


def require_width(name: str, value: float) -> None:
    """Raise an error for a relative width that no interval can have or that rates cannot resolve."""
    require(FINEST_WIDTH <= value < 1.0, name, value, f"a ratio from {FINEST_WIDTH:g} to below 1")


@dataclass(frozen=True, slots=True)
class PhasePlan:
    """The goals of one phase."""

    name: str
    duration_s: float
    relative_width: float
    """The width goal relative to the upper bound."""

    @property
    def log_width(self) -> float:
        """The width goal, logarithmic."""
        return log_width(self.relative_width)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """The validated input of an MDR search."""

    minimum_pps: float
    maximum_pps: float
    loss_ratios: tuple[float, ...]
    initial_duration_s: float
    final_duration_s: float
    relative_width: float
    intermediate_phases: int
    timeout_s: float | None
    trials_per_bound: int = 1
    exceed_ratio: float = 0.0

    def __post_init__(self) -> None:
        for name in ("minimum_pps", "maximum_pps", "initial_duration_s", "final_duration_s"):
            require_positive(name, getattr(self, name))
        more_than_minimum = f"more than minimum_pps, {self.minimum_pps!r}"
        require(self.maximum_pps > self.minimum_pps, "maximum_pps", self.maximum_pps, more_than_minimum)
        require(bool(self.loss_ratios), "loss_ratios", self.loss_ratios, "at least one")
        for ratio in self.loss_ratios:
            require_loss_ratio("loss_ratios", ratio)
        ascending = list(self.loss_ratios) == sorted(set(self.loss_ratios))
        require(ascending, "loss_ratios", self.loss_ratios, "each once, in ascending order")
        longer = f"at least initial_duration_s, {self.initial_duration_s!r}"
        require(
            self.final_duration_s >= self.initial_duration_s,
            "final_duration_s",
            self.final_duration_s,
            longer,
        )
        require_width("relative_width", self.relative_width)
        phases = self.intermediate_phases
        whole = phases == int(phases) if 0 <= phases <= MOST_PHASES else False
        require(whole, "intermediate_phases", phases, f"a whole number from 0 to {MOST_PHASES}")
        if self.timeout_s is not None:
            require_positive("timeout_s", self.timeout_s)
        trials = self.trials_per_bound
        whole = trials == int(trials) if 1 <= trials <= MOST_TRIALS_PER_BOUND else False
        require(whole, "trials_per_bound", trials, f"a whole number from 1 to {MOST_TRIALS_PER_BOUND}")
        require(
            0.0 <= self.exceed_ratio < 1.0, "exceed_ratio", self.exceed_ratio, "a ratio from 0 to below 1"
        )

    @property
    def tolerated_failures(self) -> int:
        """The number of trials of a bound that may fail while it still passes."""
        return math.floor(self.exceed_ratio * self.trials_per_bound + _NEAR)

    @property
    def needed_passes(self) -> int:
        """The number of trials of a bound that must pass for it to pass."""
        return self.trials_per_bound - self.tolerated_failures

    @property
    def log_width(self) -> float:
        """The final width goal, logarithmic, reduced slightly so that rounding never exceeds it."""
        return log_width(self.relative_width) * _SHORT

    @property
    def has_short_trials(self) -> bool:
        """Whether the initial duration is shorter than the final one."""
        return self.initial_duration_s < self.final_duration_s

    @property
    def largest_loss_ratio(self) -> float:
        """The largest loss ratio searched; a trial that exceeds it fails for all of them."""
        return self.loss_ratios[-1]

    @property
    def most_trials(self) -> int:
        """The maximum number of trials, several times what a device without contradictions can need.

        In each phase an interval may have to be widened over the whole range by repeated doubling, narrowed
        again by repeated halving, and measured again.
        """
        doublings = math.ceil(math.log2(max(2.0, self._log_range / log_width(self.relative_width))))
        steps = (doublings + 4) * len(self.loss_ratios) * (int(self.intermediate_phases) + 1)
        return 3 + 8 * steps * int(self.trials_per_bound)

    @property
    def _log_range(self) -> float:
        return math.log(self.maximum_pps) - math.log(self.minimum_pps)

    def plan(self) -> tuple[PhasePlan, ...]:
        """Return the non-initial phases: durations in geometric sequence, each width half of the previous.

        The width is halved on the logarithmic scale: 1 - width is replaced by its square root.
        """
        last = int(self.intermediate_phases)
        names = [f"intermediate {number}" for number in range(1, last + 1)] + ["final"]
        return tuple(
            PhasePlan(name, self._duration(number, last), self._width(number, last))
            for number, name in enumerate(names)
        )

    def _duration(self, number: int, last: int) -> float:
        if number == last:
            return self.final_duration_s
        growth = self.final_duration_s / self.initial_duration_s
        return self.initial_duration_s * math.pow(growth, number / last)

    def _width(self, number: int, last: int) -> float:
        if number == last:
            return self.relative_width
        return 1.0 - math.pow(1.0 - self.relative_width, 2.0 ** (last - number))

    def shift(self, rate_pps: float, log_step: float) -> float:
        """Return the rate ``log_step`` above a rate (below, if negative), within the limits.

        The step is reduced by a ten-millionth, so that rounding never makes the interval that it opens, or
        the halves of that interval, wider than required.
        """
        step = max(-self._log_range, min(self._log_range, log_step * _SHORT))
        return self.clamp(rate_pps * math.exp(step))

    def clamp(self, rate_pps: float) -> float:
        """Return the rate, or the limit that it exceeds or is within a rounding error of."""
        if rate_pps >= self.maximum_pps * (1.0 - _NEAR):
            return self.maximum_pps
        if rate_pps <= self.minimum_pps * (1.0 + _NEAR):
            return self.minimum_pps
        return rate_pps
