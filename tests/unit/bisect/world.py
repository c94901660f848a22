"""A made-up product: a history, levels, and builds that can fail; and a way to kill its bisection."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np

from perftrend import errors
from perftrend.bisect import CommitRange
from perftrend.bisect.state import RangeCommit
from perftrend.model import BuildMeasurement, MetricSamples

START = datetime(2026, 3, 2, 18, 0, tzinfo=UTC)


def line(size: int) -> CommitRange:
    """Return a range of commits c1 … cN after c0, without a merge."""
    return CommitRange("c0", tuple(RangeCommit(f"c{index + 1}", (f"c{index}",)) for index in range(size)))


class Made(str):
    """A commit that is built."""

    took_s = 600.0


@dataclass
class World:
    """Builds and measures, and counts both."""

    levels: Mapping[str, Mapping[str, float]]
    """By commit, then test; a test that is missing fails."""
    noise: float = 0.0
    """Relative, between runs; a fifth of it within."""
    broken: Collection[str] = ()
    samples: int = 5
    built: list[str] = field(default_factory=list)
    measured: list[str] = field(default_factory=list)

    def build(self, commit: str) -> Made:
        self.built.append(commit)
        if commit in self.broken:
            raise errors.BuildError(f"{commit}: make failed")
        return Made(commit)

    def measure(self, commit: str) -> BuildMeasurement:
        repeat = self.measured.count(commit)
        random = np.random.default_rng([sum(commit.encode()), len(commit), repeat])
        started = START + timedelta(minutes=5 * len(self.measured))
        self.measured.append(commit)
        values = {}
        for test, level in self.levels[commit].items():
            middle = level * (1 + self.noise * random.standard_normal())
            spread = 1 + self.noise / 5 * random.standard_normal(self.samples)
            values[test] = MetricSamples(tuple(float(x) for x in middle * spread))
        tests = dict.fromkeys(test for levels in self.levels.values() for test in levels)
        failed = {test: "no packet came back" for test in tests if test not in values}
        return BuildMeasurement(commit, started, started + timedelta(seconds=50), values, failed)


def stepped(size: int, steps: Mapping[int, float], *, before: float = 100.0) -> dict[str, dict[str, float]]:
    """Return levels of one test ``t``: each step, by the number of its commit, is a ratio."""
    level, found = before, {}
    for index in range(size + 1):
        level *= steps.get(index, 1.0)
        found[f"c{index}"] = {"t": level}
    return found


def names(numbers: Sequence[int]) -> tuple[str, ...]:
    return tuple(f"c{number}" for number in numbers)
