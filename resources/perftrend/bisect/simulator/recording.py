"""What a machine did to measurements of one program, for simulated testbeds to do the same.

The file is CSV without a head: the seconds since the recording began, the name of the program, and the time
that each repetition within one process took, in any unit.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from perftrend.errors import UsageError


@dataclass(frozen=True, slots=True)
class Recording:
    """One program, measured again and again while it did not change."""

    name: str
    speeds: NDArray[np.float64] = field(compare=False, repr=False)
    """100 ln(speed), about per cent, the median taken out: shape (measurements, repetitions)."""

    @classmethod
    def read(cls, name: str, lines: Iterable[str], program: str) -> Recording:
        """Read what a recording has of a program.

        :param name: of the recording, for people.
        :raises UsageError: if it is not a recording, lacks the program, or has times of 0 or below.
        """
        try:
            rows = [[float(each) for each in row[2:]] for row in csv.reader(lines) if row[1:2] == [program]]
        except (csv.Error, ValueError) as error:
            raise UsageError(f"{name}: {error}; give a recording") from None
        if not rows or len({len(row) for row in rows}) > 1 or not rows[0]:
            raise UsageError(f"{name} has no repetitions of {program}, or not as many in each process")
        times = np.array(rows)
        if not (np.isfinite(times).all() and (times > 0).all()):
            raise UsageError(f"{name} has times of {program} that are not above 0")
        speeds = -100 * np.log(times)
        return cls(f"{name} {program}", speeds - np.median(speeds))

    @property
    def deviation(self) -> float:
        """Of the average of one measurement, robustly: from the quartiles, in about per cent."""
        low, high = np.quantile(self.speeds.mean(axis=1), (0.25, 0.75))
        return float(high - low) / (2 * _QUARTILE)

    def replayed(self, count: int, random: np.random.Generator) -> NDArray[np.float64]:
        """Return so many measurements in a row, from any one on; after the last comes the first."""
        begin = int(random.integers(len(self.speeds)))
        return self.speeds[(begin + np.arange(count)) % len(self.speeds)]


_QUARTILE = math.sqrt(2) * 0.4769362762044699
"""Of the standard normal distribution."""
