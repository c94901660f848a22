"""Simulated patches: a true difference, and the noise of a testbed in rounds of two builds.

A round measures both builds once, the order changing from round to round. Each measurement starts the
device anew, which moves it, and then gives some samples. All noise is in per cent of the value, on the
logarithm. The noise of a patch depends on its number alone, so that all methods and all true differences see
the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perftrend.analysis.comparison import PARENT, PATCH, Observation
from perftrend.analysis.description import Floats

LEVEL_PPS = 3e5
SAMPLES = 5
SECONDS = 10
"""One sample: a trial."""
SWING_MINUTES = 20
START_SECONDS = 25
"""Starting the device."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A testbed."""

    name: str
    between: float = 2.0
    """Deviation between starts of the device, in per cent."""
    within: float = 1.0
    """Deviation of the samples of one start."""
    drift: float = 0.0
    """A random walk, in per cent in the square root of an hour."""
    swing: float = 0.0
    """Amplitude of a swing, in per cent."""
    outliers: float = 0.0
    """Share of measurements that lie 5 to 50 % lower."""
    uniform: bool = False
    """Whether starts differ evenly instead of normally."""


CELLS = {
    cell.name: cell
    for cell in (
        Cell("1n-veth"),
        Cell("quiet", between=0.3, within=0.5),
        Cell("medium", between=1.0),
        Cell("loud", between=3.0, within=3.0),
        Cell("uniform", uniform=True),
        Cell("drift", drift=4.0, swing=2.0),
        Cell("outliers", outliers=0.05),
    )
}


@dataclass(frozen=True, slots=True, eq=False)
class Patch:
    """Measurements of a patch and its parent, in the order of time."""

    observations: tuple[Observation, ...]
    """Two for each round."""
    difference: float
    """The true one, as a ratio."""

    def rounds(self, count: int) -> tuple[Observation, ...]:
        """Return the observations of the first rounds."""
        return self.observations[: 2 * count]

    def averages(self, build: int, count: int) -> Floats:
        """Return the average of each measurement of a build in the first rounds, shape (count,)."""
        return np.array([np.mean(each.samples) for each in self.rounds(count) if each.build == build])


def patch(cell: Cell, difference: float, *, number: int, rounds: int, samples: int = SAMPLES) -> Patch:
    """Simulate a patch.

    :param difference: the true one, as a ratio.
    :param number: which patch of the cell it is.
    :param samples: of each start.
    """
    minutes = (START_SECONDS + SECONDS * samples) / 60
    noise = _noise(cell, number, minutes * np.arange(2.0 * rounds), samples)
    builds = [PARENT, PATCH, PATCH, PARENT] * ((rounds + 1) // 2)
    step = 100 * math.log1p(difference)
    observations = tuple(
        Observation(
            build, index * minutes / 60, tuple((LEVEL_PPS * np.exp((row + step * build) / 100)).tolist())
        )
        for index, (build, row) in enumerate(zip(builds, noise, strict=False))
    )
    return Patch(observations, difference)


def _noise(cell: Cell, number: int, at_minutes: Floats, samples: int) -> Floats:
    """Return the noise of each sample of each measurement, shape (measurements, samples), in per cent."""
    rng = np.random.default_rng([sum(map(ord, cell.name)), number])
    count = at_minutes.size
    evenly = rng.uniform(-math.sqrt(3), math.sqrt(3), count)
    starts = evenly if cell.uniform else rng.standard_normal(count)
    steps = np.sqrt(np.diff(at_minutes, prepend=0.0) / 60) * rng.standard_normal(count)
    swing = np.sin(2 * math.pi * (at_minutes / SWING_MINUTES + rng.random()))
    off = np.where(rng.random(count) < cell.outliers, 100 * np.log1p(-rng.uniform(0.05, 0.5, count)), 0.0)
    shared = cell.between * starts + cell.drift * steps.cumsum() + cell.swing * swing + off
    return shared[:, np.newaxis] + cell.within * rng.standard_normal((count, samples))
