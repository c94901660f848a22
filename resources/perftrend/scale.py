"""Linear scales, ranges and round ticks for pictures that are drawn without a plotting library.

All functions work with any finite numbers, including subnormal ones and ends whose difference is beyond
the largest float. Values come from archives, so they may be of any size.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_STEPS = (1, 2, 5, 10)
_ROUNDING = Decimal("1e-9")
_MOST_DECIMALS, _HUGE = 6, 1e9
"""Ticks with more decimals, and numbers from this one on, have an exponent."""
_Values = TypeVar("_Values", float, NDArray[np.float64])


@dataclass(frozen=True, slots=True)
class Scale:
    """The mapping of values to coordinates: ``low`` to ``start``, ``high`` to ``stop``; the ends differ."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: _Values) -> _Values:
        """Return the coordinates of values, which may be outside; far outside they may be infinite."""
        # The difference of halves cannot overflow; those of subnormal numbers would lose a digit.
        factor = 1.0 if math.isfinite(self.high - self.low) else 0.5
        low = factor * self.low
        return self.start + (factor * value - low) / (factor * self.high - low) * (self.stop - self.start)


def padded_range(values: Sequence[float], *, least_span: float) -> tuple[float, float]:
    """Return the range of some values, wider if they are too close to each other.

    :param values: at least one; all finite.
    :param least_span: the minimum width of the range, relative to its middle; positive.
    :returns: two different finite ends.
    """
    low, high = min(values), max(values)
    middle = low / 2 + high / 2
    half = least_span / 2 * abs(middle)
    low, high = min(low, middle - half), max(high, middle + half)
    if low == high:
        return low - 1.0, high + 1.0
    return max(low, -sys.float_info.max), min(high, sys.float_info.max)


@dataclass(frozen=True, slots=True)
class Tick:
    """A round value of an axis."""

    value: float
    text: str
    """With as many digits as the ticks of the axis need to differ."""


def ticks(low: float, high: float, most: int) -> list[Tick]:
    """Choose round values from ``low`` to ``high``: multiples of 1, 2 or 5 times a power of ten.

    :param most: the maximum number of ticks, at least 2.
    :returns: ascending, with different texts; empty if the ends are equal.
    """
    if low == high:
        return []
    begin, end = Decimal(low), Decimal(high)
    least = (end - begin) / (most - 1)
    power = least.adjusted()
    step = next(step for step in _STEPS if Decimal(step).scaleb(power) >= least * (1 - _ROUNDING))
    power, step = (power + 1, 1) if step == _STEPS[-1] else (power, step)
    unit = Decimal(step).scaleb(power)
    first, last = math.ceil(begin / unit - _ROUNDING), math.floor(end / unit + _ROUNDING)
    is_short = -power <= _MOST_DECIMALS and max(abs(begin), abs(end)) < _HUGE
    return [
        Tick(float(value), f"{value:.{max(0, -power)}f}" if is_short else _with_exponent(value, power))
        for value in (number * unit for number in range(first, last + 1))
    ]


def _with_exponent(value: Decimal, power: int) -> str:
    """Return a multiple of a power of ten with all its digits.

    Two floats may be equal where the multiples differ, so the text comes from the multiple.
    """
    return f"{value:.{value.adjusted() - power}e}" if value else "0"
