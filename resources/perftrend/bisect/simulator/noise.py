"""Noise: differences between measurements of the same commit, and between commits that change nothing.

All sizes are deviations of 100 ln(value), about per cent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from perftrend import errors

_NO_VARIANCE = 2
"""Degrees of freedom up to which Student's t has no finite variance."""


@dataclass(frozen=True, slots=True)
class SimulatedNoise:
    """The noise of a testbed and of a product; drift is separate, see :mod:`.drift`.

    :raises SettingsError: if a value is negative, a fraction is above 1, or there is no sample.
    """

    within: float = 1.0
    """Deviation between the samples of a measurement."""
    between: float = 1.0
    """Deviation between measurements of a commit."""
    samples: int = 5
    """Number of samples of a measurement."""
    shared: float = 0.0
    """Fraction of the variance between measurements that all tests of a measurement have in common."""
    freedom: float = 0.0
    """Degrees of freedom of Student's t for the values between measurements; 0: they are normal."""
    modes: float = 0.0
    """Distance of two levels, such as two speeds of the machine; each measurement has one of them."""
    low: float = 0.5
    """Fraction of the measurements at the lower one."""
    phase: float = 1.0
    """Average number of successive measurements at one level, if both levels are equally frequent."""
    autocorrelation: float = 0.0
    """Correlation of successive values between measurements, whichever commits are measured."""
    layout: float = 0.0
    """Deviation between commits that change nothing: the code has another memory layout. It is constant for
    a commit."""
    variants: int = 1
    """Layouts in which each commit is measured in turn; they have the same deviation."""
    outliers: float = 0.0
    """Fraction of measurements that are 5 to 50 per cent low."""

    def __post_init__(self) -> None:
        for each in fields(self):
            if not 0 <= getattr(self, each.name) < math.inf:
                raise errors.SettingsError(f"{each.name} is {getattr(self, each.name)}; give 0 or more")
        if 0 < self.freedom <= _NO_VARIANCE:
            raise errors.SettingsError(f"freedom is {self.freedom}; give 0, or more than {_NO_VARIANCE}")
        if self.autocorrelation >= 1 or self.phase < 1:
            raise errors.SettingsError("autocorrelation should be below 1, and phase at least 1")
        for name in ("shared", "outliers", "low"):
            if getattr(self, name) > 1:
                raise errors.SettingsError(f"{name} is {getattr(self, name)}; give a fraction from 0 to 1")
        for name in ("samples", "variants"):
            if getattr(self, name) < 1:
                raise errors.SettingsError(f"{name} is {getattr(self, name)}; give at least 1")

    @property
    def deviation(self) -> float:
        """The deviation of the average of one measurement of a commit, without outliers."""
        modes = self.modes * math.sqrt(self.low * (1 - self.low))
        return math.hypot(self.between, self.within / math.sqrt(self.samples), modes)

    @property
    def remembers(self) -> bool:
        """Whether measurements depend on the ones before them."""
        return self.phase > 1 or self.autocorrelation > 0

    def course(self, count: int, random: np.random.Generator) -> NDArray[np.float64]:
        """Draw the levels of successive measurements and the deviations between them, for any commits.

        :returns: (count,); it replaces the level and the deviation between measurements of :meth:`drawn`.
        """
        lasts = 2 * self.phase * np.array([1 - self.low, self.low])
        low = bool(random.random() < self.low)
        levels = np.empty(count)
        for at, moment in enumerate(random.random(count)):
            levels[at] = 0.0 if low else self.modes
            low ^= bool(moment < 1 / max(lasts[int(low)], 1.0))
        own = self._draw_between(random, count)
        fresh = math.sqrt(1 - self.autocorrelation**2)
        for at in range(1, count):
            own[at] = self.autocorrelation * own[at - 1] + fresh * own[at]
        return levels + own

    def common(self, random: np.random.Generator) -> float:
        """Draw the deviation that all tests of a measurement have in common."""
        return self.between * math.sqrt(self.shared) * float(random.standard_normal())

    def draw(self, random: np.random.Generator) -> list[float]:
        """Draw the deviation of each sample of a measurement of one test, except for the common one."""
        own = math.sqrt(1 - self.shared) * float(self._draw_between(random, 1)[0])
        spread = self.within * random.standard_normal(self.samples)
        mode, unlucky, depth = (float(each) for each in random.random(3))
        own = 0.0 if self.remembers else own + self.modes * (mode < 1 - self.low)
        if unlucky < self.outliers:
            own += 100 * math.log(1 - (0.05 + 0.45 * depth))
        return [own + float(each) for each in spread]

    def _draw_between(self, random: np.random.Generator, count: int) -> NDArray[np.float64]:
        """Draw the deviations between measurements, (count,)."""
        if not self.freedom:
            return self.between * random.standard_normal(count)
        return self.between * math.sqrt(1 - 2 / self.freedom) * random.standard_t(self.freedom, count)
