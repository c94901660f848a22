"""Simulated histories: commits that change the performance, and a testbed that measures them with noise.

Levels are 100 ln(value), about per cent. The noise of a measurement depends on the history, the commit
and how often that was measured, not on the strategy, so that all strategies see the same luck.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from perftrend.bisect import Range
from perftrend.bisect.adaptive.suspects import Suspects
from perftrend.bisect.state import Commit
from perftrend.model import Measured, Sampled

BUILD_S, MEASURE_S = 600.0, 50.0
SAMPLES = 5
_START = datetime(2026, 3, 2, 18, 0, tzinfo=UTC)
_MINUTES = 20000
_STRETCH = 4.0
"""Commits that do not build come in stretches of this length on average."""


@dataclass(frozen=True)
class Cell:
    """A kind of history."""

    name: str
    size: int = 64
    ratios: tuple[float, ...] = (2.0,)
    """Changes relative to the noise of one measurement; none: nothing changes."""
    within: float = 1.0
    """Deviation within a measurement, in per cent."""
    between: float = 1.0
    drift: str = ""
    """``walk``, ``sine`` or ``jumps``; empty: none."""
    outliers: float = 0.0
    """Share of measurements that are 5 to 50 per cent low."""
    broken: float = 0.0
    """Share of commits that do not build."""
    layout: float = 0.0
    """Deviation between commits that change nothing, in per cent."""
    modes: float = 0.0
    """Distance of two levels that a start of the device chooses between, in per cent."""
    merges: bool = False
    tests: tuple[float, ...] = (1.0,)
    """What the changes are multiplied by in each test; a negative one turns them round."""

    @property
    def noise(self) -> float:
        """Deviation of one measurement, in per cent."""
        return math.hypot(self.between, self.within / math.sqrt(SAMPLES))


CELLS = (
    Cell("base-r2"),
    Cell("base-r3", ratios=(3.0,)),
    Cell("base-r4", ratios=(4.0,)),
    Cell("base-r5", ratios=(5.0,)),
    Cell("base-r10", ratios=(10.0,)),
    Cell("N8-r2", size=8),
    Cell("N256-r2", size=256),
    Cell("N1024-r2", size=1024),
    Cell("N1024-r4", size=1024, ratios=(4.0,)),
    Cell("quiet-r2", within=0.5, between=0.3),
    Cell("loud-r2", within=3.0, between=3.0),
    Cell("within-r2", within=3.0, between=0.0),
    Cell("walk-r2", drift="walk"),
    Cell("sine-r2", drift="sine"),
    Cell("jumps-r2", drift="jumps"),
    Cell("walk-r4", drift="walk", ratios=(4.0,)),
    Cell("outliers-r2", outliers=0.02),
    Cell("broken-r2", broken=0.1),
    Cell("layout-r4", layout=0.5, ratios=(4.0,)),
    Cell("modes-r4", modes=2.0, ratios=(4.0,)),
    Cell("merges-r2", merges=True),
    Cell("merges-r4", merges=True, ratios=(4.0,), broken=0.1),
    Cell("all-r2", size=256, drift="walk", outliers=0.02, broken=0.1),
    Cell("all-r4", size=256, drift="walk", outliers=0.02, broken=0.1, ratios=(4.0,)),
    Cell("none", ratios=()),
    Cell("none-loud", ratios=(), within=3.0, between=3.0),
    Cell("none-sine", ratios=(), drift="sine"),
    Cell("none-all", ratios=(), size=256, drift="walk", outliers=0.02, broken=0.1),
    Cell("two-same", ratios=(5.0, 4.0)),
    Cell("two-opposite", ratios=(6.0, -3.0)),
    Cell("two-cancelling", ratios=(5.0, -4.5)),
    Cell("tests-one", ratios=(3.0,), tests=(1.0, 0.0, 0.0, 0.0)),
    Cell("tests-all", ratios=(1.5,), tests=(1.0, -1.0, 1.0, -1.0)),
)


@dataclass
class Simulated:
    """One history of a cell, and its testbed, whose clock runs as it builds and measures."""

    cell: Cell
    seed: int
    clock_s: float = 0.0
    built: list[str] = field(default_factory=list)
    measured: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        random = np.random.default_rng([self.seed, 1])
        self.range = Range("0" * 40, _commits(self.cell, random))
        names = self.range.history.commits
        places = random.choice(len(names), size=len(self.cell.ratios), replace=False)
        self.culprits: Mapping[str, float] = {
            names[place]: ratio * self.cell.noise
            for place, ratio in zip(places, self.cell.ratios, strict=True)
        }
        """Change in per cent by commit."""
        self.broken = _broken(self.cell, len(names), places, random)

    def build(self, commit: str) -> bool:
        """Build a commit, and say whether that was possible."""
        self.clock_s += BUILD_S
        self.built.append(commit)
        return self.range.history.index(commit) not in self.broken

    def measure(self, commit: str) -> Measured:
        """Measure a commit once."""
        repeat = self.measured.get(commit, 0)
        self.measured[commit] = repeat + 1
        index = self.range.history.index(commit)
        contained = set(self.range.history.hashes(self.range.history.contained(commit)))
        change = math.fsum(size for culprit, size in self.culprits.items() if culprit in contained)
        minute = min(int((self.clock_s + MEASURE_S / 2) / 60), _MINUTES - 1)
        values = {}
        for test, factor in enumerate(self.cell.tests):
            level = factor * change + self.drift[test, minute]
            values[f"test {test}"] = Sampled(self._samples(level, [self.seed, test, index + 1, repeat]))
        started = _START + timedelta(seconds=self.clock_s)
        self.clock_s += MEASURE_S
        return Measured(commit, started, _START + timedelta(seconds=self.clock_s), values)

    @cached_property
    def drift(self) -> NDArray[np.float64]:
        """What the testbed adds at each minute, in per cent, by test."""
        random = np.random.default_rng([self.seed, 2])
        shape = (len(self.cell.tests), _MINUTES)
        if self.cell.drift == "walk":
            return np.cumsum(random.normal(0.0, 1.0 / math.sqrt(60), shape), axis=1)
        if self.cell.drift == "sine":
            phase = random.uniform(0, 2 * math.pi, (shape[0], 1))
            return np.sin(2 * math.pi * np.arange(_MINUTES) / 180 + phase) * 2.0
        if self.cell.drift == "jumps":
            jumps = random.random(shape) < 1 / 240
            return np.cumsum(np.where(jumps, random.normal(0.0, 3.0, shape), 0.0), axis=1)
        return np.zeros(shape)

    def smallest_set(self, culprit: str) -> tuple[str, ...]:
        """Return the commits that no measurement of commits that build could tell from a culprit."""
        suspects = self._told_apart
        bit = 1 << self.range.history.index(culprit)
        (own,) = (each for each in suspects.classes if each & bit)
        return self.range.history.hashes(own)

    @cached_property
    def _told_apart(self) -> Suspects:
        names = self.range.history.commits
        return Suspects.of(
            self.range.history, [name for index, name in enumerate(names) if index not in self.broken], ()
        )

    def _samples(self, level: float, key: list[int]) -> tuple[float, ...]:
        random = np.random.default_rng(key)
        level += self.cell.between * random.standard_normal()
        spread = self.cell.within * random.standard_normal(SAMPLES)
        unlucky, depth, mode = random.random(3)
        if unlucky < self.cell.outliers:
            level += 100 * math.log(1 - (0.05 + 0.45 * depth))
        level += self.cell.modes * (mode < 0.5)  # noqa: PLR2004 - one start in two
        level += self.cell.layout * np.random.default_rng(key[:3]).standard_normal()
        return tuple(float(value) for value in 1e7 * np.exp((level + spread) / 100))


def _commits(cell: Cell, random: np.random.Generator) -> tuple[Commit, ...]:
    parents: list[list[int]] = []
    tip = -1
    while len(parents) < cell.size:
        left = cell.size - len(parents)
        branch = int(random.integers(1, 7)) if cell.merges and random.random() < 0.3 else 0  # noqa: PLR2004
        if branch and left > branch + 1:
            side = tip
            for _ in range(branch):
                parents.append([side])
                side = len(parents) - 1
            if random.random() < 0.5:  # noqa: PLR2004 - the mainline went on in one of two
                parents.append([tip])
                tip = len(parents) - 1
            parents.append([tip, side])
        else:
            parents.append([tip])
        tip = len(parents) - 1
    name = [f"{index + 1:040x}" for index in range(len(parents))]
    return tuple(
        Commit(name[index], tuple(name[each] if each >= 0 else "0" * 40 for each in known))
        for index, known in enumerate(parents)
    )


def _broken(
    cell: Cell, size: int, culprits: NDArray[np.int64], random: np.random.Generator
) -> frozenset[int]:
    """Return which commits do not build: stretches, at a culprit in every second history."""
    if not cell.broken:
        return frozenset()
    found: set[int] = set()
    if culprits.size and random.random() < 0.5:  # noqa: PLR2004 - in every second history
        length = int(random.geometric(1 / _STRETCH))
        start = int(culprits[0]) - int(random.integers(0, length + 1))
        found.update(range(start, start + length))
    while len(found) < cell.broken * size:
        start = int(random.integers(0, size))
        found.update(range(start, start + int(random.geometric(1 / _STRETCH))))
    return frozenset(index for index in found if 0 <= index < size - 1)
