"""Simulated patches: a true difference, and the noise of a testbed in rounds of two builds.

A round measures both builds once, in the order that :class:`.Design` draws. Each measurement starts the
device, which adds noise, and then gives some samples. All noise is in per cent of the value, on the
logarithm. The noise and the order of a patch depend only on its number, so that they are the same for all
methods and all true differences.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from perftrend.analysis.comparison import PATCH, Design, Observation
from perftrend.analysis.description import Floats
from perftrend.bisect.simulator import Recording

LEVEL_PPS = 3e5
SAMPLES = 5
SWING_MINUTES = 20


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
    """Fraction of measurements that are 5 to 50 % lower."""
    uniform: bool = False
    """Whether starts have a uniform instead of a normal distribution."""
    freedom: float = 0.0
    """Degrees of freedom of Student's t distribution of starts; 0: they have a normal one."""
    autocorrelation: float = 0.0
    """The correlation of each start with the next, whichever builds they are of."""
    starts: float = 0.0
    """Each start is this much higher or lower, with equal probability."""
    slowdown: float = 1.0
    """The factor by which the machine is slower at its lower speed."""
    slow: float = 0.45
    """Fraction of the time at the lower speed."""
    phase_s: float = 2.0
    """Mean time at one speed, if both are as frequent."""
    layout: float = 0.0
    """Deviation of a build caused only by its memory layout: it is the same at each start."""
    variants: int = 1
    """Layouts of a build that are measured in turn, with the same deviation between them."""
    start_s: float = 25.0
    """The time to start the device."""
    sample_s: float = 10.0
    """The time of one sample: a trial."""
    recording: Recording | None = field(default=None, compare=False)
    """The recorded noise of a program on a machine, instead of all of this."""


def _two_speeds(name: str, *, phase_s: float) -> Cell:
    """Return a machine on which a short command is measured: phases of seconds do not average out."""
    return Cell(name, between=0.0, within=0.4, slowdown=1.6, phase_s=phase_s, start_s=0.3, sample_s=0.2)


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
        Cell("starts-1", between=0.0, within=0.15, starts=1.0),
        Cell("starts-2", between=0.0, within=0.15, starts=2.0),
        Cell("starts-2-loud", between=0.5, within=1.0, starts=2.0),
        _two_speeds("speeds-2s", phase_s=2.0),
        _two_speeds("speeds-20s", phase_s=20.0),
        Cell("t4", freedom=4.0, within=0.5),
        Cell("correlated-0.4", autocorrelation=0.4),
        Cell("correlated-0.8", autocorrelation=0.8),
        Cell("layout", between=0.5, within=0.5, layout=1.0),
        Cell("variants-8", between=0.5, within=0.5, layout=1.0, variants=8),
    )
}


def cell_from_recording(source: str) -> Cell:
    """Return a testbed with the recorded noise of a program on a machine.

    :param source: a file with a recording, a colon, and the name of the program.
    """
    file, _, program = source.rpartition(":")
    with Path(file).open(encoding="utf-8") as lines:
        recording = Recording.read(Path(file).stem, lines, program)
    return Cell(recording.name, recording=recording)


@dataclass(frozen=True, slots=True, eq=False)
class Patch:
    """Measurements of a patch and its parent, in the order of time."""

    observations: tuple[Observation, ...]
    """Two for each round."""
    difference: float
    """The true one, as a ratio."""
    design: Design

    def rounds(self, count: int) -> tuple[Observation, ...]:
        """Return the observations of the first rounds, of whole blocks."""
        return self.observations[: 2 * count]

    def averages(self, build: int, count: int) -> Floats:
        """Return the averages of the first measurements of a build, shape (count,)."""
        return np.array([np.mean(each.samples) for each in self._of(build)[:count]])

    def samples(self, build: int, count: int) -> Floats:
        """Return all samples of the first measurements of a build."""
        return np.concatenate([each.samples for each in self._of(build)[:count]])

    def _of(self, build: int) -> list[Observation]:
        return [each for each in self.observations if each.build == build]


def patch(
    cell: Cell, difference: float, *, number: int, rounds: int, samples: int = SAMPLES, test: int = 0
) -> Patch:
    """Simulate one test of a patch.

    :param difference: the true one, as a ratio.
    :param number: the number of the patch in the cell.
    :param samples: the number of samples of each start.
    :param test: the number of the test: all tests are measured in one order, and each has its own noise.
    """
    design = Design(maximum_rounds=rounds)
    builds = [
        build for block in range(len(design.blocks)) for build in design.order(f"{cell.name} {number}", block)
    ]
    seconds = cell.start_s + cell.sample_s * samples
    random = np.random.default_rng([sum(map(ord, cell.name)), number, test])
    noise = _noise(cell, np.arange(2.0 * rounds) * seconds, samples, random)
    # The parent is build 0, the patch build 1.
    levels = cell.layout * random.standard_normal((2, cell.variants))
    levels[PATCH] += 100 * math.log1p(difference)
    measured = [0, 0]
    observations = []
    for index, (build, row) in enumerate(zip(builds, noise, strict=True)):
        variant = measured[build] % cell.variants
        measured[build] += 1
        samples_pps = LEVEL_PPS * np.exp((row + levels[build, variant]) / 100)
        observations.append(Observation(build, index * seconds / 3600, tuple(samples_pps.tolist()), variant))
    return Patch(tuple(observations), difference, design)


def _noise(cell: Cell, at_s: Floats, samples: int, random: np.random.Generator) -> Floats:
    """Return the noise of each sample of each measurement, shape (measurements, samples), in per cent."""
    if cell.recording:
        return cell.recording.replay(at_s.size, random)
    count, minutes = at_s.size, at_s / 60
    steps = np.sqrt(np.diff(minutes, prepend=0.0) / 60) * random.standard_normal(count)
    swing = np.sin(2 * math.pi * (minutes / SWING_MINUTES + random.random()))
    depth = 100 * np.log1p(-random.uniform(0.05, 0.5, count))
    off = np.where(random.random(count) < cell.outliers, depth, 0.0)
    shared = cell.between * _starts(cell, count, random) + cell.drift * steps.cumsum() + cell.swing * swing
    shared += off + cell.starts * random.choice([-1.0, 1.0], count)
    of_samples = at_s[:, np.newaxis] + cell.start_s + cell.sample_s * np.arange(samples)
    speeds = -100 * math.log(cell.slowdown) * _is_slow(cell, of_samples, random)
    return shared[:, np.newaxis] + speeds + cell.within * random.standard_normal((count, samples))


def _starts(cell: Cell, count: int, random: np.random.Generator) -> Floats:
    """Return random deviations of starts, with the deviation 1, shape (count,)."""
    if cell.uniform:
        return random.uniform(-math.sqrt(3), math.sqrt(3), count)
    if cell.freedom:
        return math.sqrt(1 - 2 / cell.freedom) * random.standard_t(cell.freedom, count)
    own = random.standard_normal(count)
    fresh = math.sqrt(1 - cell.autocorrelation**2)
    for at in range(1, count):
        own[at] = cell.autocorrelation * own[at - 1] + fresh * own[at]
    return own


def _is_slow(cell: Cell, at_s: Floats, random: np.random.Generator) -> Floats:
    """Return 1 for the moments at which the machine is slow, else 0, in the shape of ``at_s``."""
    end = float(at_s.max()) + cell.phase_s
    lasts = 2 * cell.phase_s * np.array([1 - cell.slow, cell.slow])
    is_slow = bool(random.random() < cell.slow)
    begins, states, at = [0.0], [is_slow], 0.0
    while cell.slowdown > 1 and at < end:
        at += float(random.exponential(lasts[int(is_slow)]))
        is_slow = not is_slow
        begins.append(at)
        states.append(is_slow)
    found: Floats = np.array(states, dtype=np.float64)[np.searchsorted(begins, at_s, side="right") - 1]
    return found
