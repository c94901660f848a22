"""Linear scales and round ticks for pictures that are drawn without a plotting library."""

from __future__ import annotations

import math
from dataclasses import dataclass

_STEPS = (1.0, 2.0, 5.0, 10.0)
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Scale:
    """Where a value lies in a picture: ``low`` at ``start``, ``high`` at ``stop``."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        """Return the coordinate of a value, which may lie outside."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.stop - self.start)


def ticks(low: float, high: float, most: int) -> list[tuple[float, int]]:
    """Choose round values from ``low`` to ``high``: multiples of 1, 2 or 5 times a power of ten.

    :param most: how many ticks there may be, at least 2.
    :returns: each value with the number of decimals that it needs.
    """
    least = (high - low) / (most - 1)
    power = math.floor(math.log10(least))
    step = next(step for step in _STEPS if step * 10.0**power >= least * (1.0 - _ROUNDING))
    power, step = (power + 1, 1.0) if step == _STEPS[-1] else (power, step)
    unit = step * 10.0**power
    first, last = math.ceil(low / unit - _ROUNDING), math.floor(high / unit + _ROUNDING)
    return [(number * unit, max(0, -power)) for number in range(first, last + 1)]
