"""Differences between measurements that no change causes: noise, drift of a testbed, and recordings.

Noise differs between measurements of the same commit, and between commits that change nothing. With drift a
testbed wanders, swings or jumps over time. A recording has measurements of one program on a machine, which
simulated testbeds replay. All sizes are deviations of 100 ln(value), about per cent.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from perftrend import errors
from perftrend.errors import UsageError

_NO_VARIANCE = 2
"""Degrees of freedom up to which Student's t has no finite variance."""

_QUARTILE = math.sqrt(2) * 0.4769362762044699
"""Upper quartile of the standard normal distribution."""

Levels = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SimulatedNoise:
    """The noise of a testbed and of a product; drift is separate, see :class:`Drift`.

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
    unvaried: float = 0.0
    """Fraction of the layout's variance that all variants of a commit have in common."""
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
        for name in ("shared", "outliers", "low", "unvaried"):
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

        :returns: (count,); it replaces the level and the deviation between measurements of :meth:`draw`.
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


@dataclass(frozen=True, slots=True)
class Recording:
    """Repeated measurements of one program that did not change.

    The file is CSV without a header: the seconds since the recording began, the name of the program, and the
    time of each repetition within one process, in any unit.
    """

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
