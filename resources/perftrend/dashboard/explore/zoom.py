"""The visible part of the plot, as the address of the page encodes it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from perftrend.dashboard.formats import plain
from perftrend.errors import UsageError

AXES = 2
"""Number of axes of values: one on each side."""
_LONGEST_UNIT = 100
_NUMBER = r"-?[0-9]{1,21}(?:\.[0-9]{1,21})?(?:e[+-]?[0-9]{1,3})?"
_RANGE = re.compile(rf"({_NUMBER})\.\.({_NUMBER})")


@dataclass(frozen=True, slots=True)
class ZoomRange:
    """Two numbers, the lower first."""

    low: float
    high: float

    def __str__(self) -> str:
        return "..".join(repr(each).removesuffix(".0") for each in (self.low, self.high))

    @property
    def middle(self) -> float:
        """The middle of the range."""
        return self.low / 2 + self.high / 2

    @classmethod
    def read(cls, name: str, text: str) -> Self:
        """Read the range of a parameter of the address.

        :raises UsageError: if it is not a range.
        """
        found = _RANGE.fullmatch(text)
        low, high = map(float, found.groups()) if found else (math.inf, math.inf)
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise UsageError(
                f"{name} {plain(text[:50])!r}: enter two numbers, the lower one first, such as 12.5..40"
            )
        return cls(low, high)


@dataclass(frozen=True, slots=True)
class Zoom:
    """The visible part of the plot.

    ``x=LOW..HIGH`` is a range of columns, and ``y=LOW..HIGH UNIT`` a range of values in the displayed unit,
    once for each axis. All values of other units are visible.
    """

    columns: ZoomRange | None = None
    """None: all of the tile."""
    values: tuple[tuple[str, ZoomRange], ...] = ()
    """By unit; all values of other units are visible."""

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The names and values of the address."""
        values = (f"{seen} {unit}".rstrip() for unit, seen in self.values)
        return [("x", str(self.columns))] * bool(self.columns) + [("y", each) for each in values]

    @classmethod
    def read(cls, pairs: Sequence[tuple[str, str]]) -> Self:
        """Read the names and values of an address.

        :raises UsageError: if a range is not valid, or there are too many.
        """
        columns = next((ZoomRange.read(name, value) for name, value in pairs if name == "x" and value), None)
        return cls(
            columns, tuple(_value_ranges(value for name, value in pairs if name == "y" and value).items())
        )


WHOLE = Zoom()


def _value_ranges(texts: Iterable[str]) -> dict[str, ZoomRange]:
    found = {}
    for text in texts:
        seen, _, unit = text.partition(" ")
        if len(unit) > _LONGEST_UNIT:
            raise UsageError(f"y: the unit has {len(unit)} characters; at most {_LONGEST_UNIT} are allowed")
        found[unit.strip()] = ZoomRange.read("y", seen)
    if len(found) > AXES:
        raise UsageError(f"y: {len(found)} ranges are too many; a plot has axes for {AXES} units")
    return found
