"""Changes of a testbed over time that no commit causes: it wanders, swings or jumps.

All sizes are in 100 ln(value), about per cent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Levels = NDArray[np.float64]


class Drift(Protocol):
    """A change of all levels over time."""

    def levels(self, minutes: int, random: np.random.Generator) -> Levels:
        """Return the offset at each minute, in per cent, shape (minutes,)."""


@dataclass(frozen=True, slots=True)
class Walk:
    """A random walk."""

    per_root_hour: float = 1.0
    """Its deviation after an hour, in per cent; after four hours it is twice that."""

    def levels(self, minutes: int, random: np.random.Generator) -> Levels:
        """Return the walk, minute by minute."""
        return np.cumsum(random.normal(0.0, self.per_root_hour / math.sqrt(60), minutes))


@dataclass(frozen=True, slots=True)
class Swing:
    """A sine with a random phase, such as that of a room that is cooled intermittently."""

    amplitude: float = 2.0
    """In per cent, in both directions."""
    period_h: float = 3.0

    def levels(self, minutes: int, random: np.random.Generator) -> Levels:
        """Return the sine, minute by minute."""
        turns = np.arange(minutes) / (60 * self.period_h) + random.random()
        swing: Levels = self.amplitude * np.sin(2 * math.pi * turns)
        return swing


@dataclass(frozen=True, slots=True)
class Jumps:
    """Jumps at random times, such as those of a testbed that others use, too."""

    deviation: float = 3.0
    """Deviation of the size of a jump, in per cent."""
    every_h: float = 4.0
    """Average interval between jumps, in hours."""

    def levels(self, minutes: int, random: np.random.Generator) -> Levels:
        """Return the sum of the jumps so far, minute by minute."""
        jumps = random.random(minutes) < 1 / (60 * self.every_h)
        sizes = random.normal(0.0, self.deviation, minutes)
        return np.cumsum(np.where(jumps, sizes, 0.0))
