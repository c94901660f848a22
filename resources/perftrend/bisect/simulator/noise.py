"""What makes two measurements of the same commit differ, and two commits that do the same.

All sizes are deviations of 100 ln(value), about per cent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

from perftrend import errors


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise of a testbed and of a product; drift is apart from it, see :mod:`.drift`.

    :raises SettingsError: if a value is negative, a share is above 1, or there is no sample.
    """

    within: float = 1.0
    """Between the samples of a measurement."""
    between: float = 1.0
    """Between measurements of a commit."""
    samples: int = 5
    """Of a measurement."""
    shared: float = 0.0
    """Share of the variance between measurements that all tests of a measurement have in common."""
    modes: float = 0.0
    """Distance of two levels, one of which each measurement has."""
    layout: float = 0.0
    """Between commits that change nothing: code lies elsewhere in memory. A commit keeps it."""
    outliers: float = 0.0
    """Share of measurements that are 5 to 50 per cent low."""

    def __post_init__(self) -> None:
        for each in fields(self):
            if not 0 <= getattr(self, each.name) < math.inf:
                raise errors.SettingsError(f"{each.name} is {getattr(self, each.name)}; give 0 or more")
        for name in ("shared", "outliers"):
            if getattr(self, name) > 1:
                raise errors.SettingsError(f"{name} is {getattr(self, name)}; give a share from 0 to 1")
        if self.samples < 1:
            raise errors.SettingsError(f"samples is {self.samples}; a measurement has 1 at least")

    @property
    def deviation(self) -> float:
        """Of the average of one measurement without outliers, for one commit."""
        return math.hypot(self.between, self.within / math.sqrt(self.samples), self.modes / 2)

    def common(self, random: np.random.Generator) -> float:
        """Draw what all tests of a measurement have in common."""
        return self.between * math.sqrt(self.shared) * float(random.standard_normal())

    def drawn(self, random: np.random.Generator) -> list[float]:
        """Draw what a measurement of one test adds to each of its samples, besides what is common."""
        own = self.between * math.sqrt(1 - self.shared) * float(random.standard_normal())
        spread = self.within * random.standard_normal(self.samples)
        mode, unlucky, depth = (float(each) for each in random.random(3))
        own += self.modes * (mode < 0.5)  # noqa: PLR2004 - one measurement in two
        if unlucky < self.outliers:
            own += 100 * math.log(1 - (0.05 + 0.45 * depth))
        return [own + float(each) for each in spread]
