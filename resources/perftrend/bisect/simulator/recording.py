"""Recorded measurements of one program on a machine, which simulated testbeds replay.

The file is CSV without a header: the seconds since the recording began, the name of the program, and the time
of each repetition within one process, in any unit.
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
    """Repeated measurements of one program that did not change."""

    name: str
    speeds: NDArray[np.float64] = field(compare=False, repr=False)
    """100 ln(speed), about per cent, minus the median: shape (measurements, repetitions)."""

    @classmethod
    def read(cls, name: str, lines: Iterable[str], program: str) -> Recording:
        """Read the measurements of a program in a recording.

        :param name: the name of the recording, for messages.
        :raises UsageError: if it is not a recording, lacks the program, or has times of 0 or below.
        """
        try:
            rows = [[float(each) for each in row[2:]] for row in csv.reader(lines) if row[1:2] == [program]]
        except (csv.Error, ValueError) as error:
            raise UsageError(f"{name}: {error}; give a recording") from None
        if not rows or len({len(row) for row in rows}) > 1 or not rows[0]:
            raise UsageError(f"{name} has no repetitions of {program}, or not the same number per process")
        times = np.array(rows)
        if not (np.isfinite(times).all() and (times > 0).all()):
            raise UsageError(f"{name} has times of {program} that are not above 0")
        speeds = -100 * np.log(times)
        return cls(f"{name} {program}", speeds - np.median(speeds))

    @property
    def deviation(self) -> float:
        """The robust deviation of the average of one measurement: from the quartiles, in about per cent."""
        low, high = np.quantile(self.speeds.mean(axis=1), (0.25, 0.75))
        return float(high - low) / (2 * _QUARTILE)

    def replay(self, count: int, random: np.random.Generator) -> NDArray[np.float64]:
        """Return ``count`` successive measurements from a random one on; the first follows the last."""
        begin = int(random.integers(len(self.speeds)))
        return self.speeds[(begin + np.arange(count)) % len(self.speeds)]


_QUARTILE = math.sqrt(2) * 0.4769362762044699
"""Upper quartile of the standard normal distribution."""
