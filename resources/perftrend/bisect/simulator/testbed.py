"""A testbed that builds and measures simulated histories, with a clock of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property

import numpy as np

from perftrend.bisect.simulator.history import SimulatedHistory
from perftrend.bisect.simulator.noise import Levels, SimulatedNoise
from perftrend.bisect.state import BisectOutcome, BisectState, Strategy
from perftrend.errors import BuildError
from perftrend.model import BuildMeasurement, MetricSamples

_START = datetime(2026, 3, 2, 18, 0, tzinfo=UTC)
_MINUTES = 14 * 24 * 60
"""Duration of the drift, which is constant afterwards."""
_LEVEL = 1e7
_MEASUREMENTS = 4096
"""Length of the sequences of noise, which repeat afterwards."""


@dataclass(frozen=True, slots=True)
class SimulatedBuild:
    """A commit that can be measured."""

    commit: str
    took_s: float
    """Duration of the build."""


@dataclass
class SimulatedTestbed:
    """A testbed that builds and measures commits of a history, and counts both.

    ``build`` and ``measure`` are arguments for a :class:`perftrend.bisect.BisectSession`.
    """

    history: SimulatedHistory
    build_s: float = 600.0
    measure_s: float = 50.0
    clock_s: float = 0.0
    built: list[str] = field(default_factory=list)
    """Commits in the order of building, including those that failed."""
    measured: dict[str, int] = field(default_factory=dict)
    """Number of measurements, by commit."""

    def build(self, commit: str) -> SimulatedBuild:
        """Build a commit.

        :raises BuildError: if it does not build.
        """
        self.clock_s += self.build_s
        self.built.append(commit)
        if commit in self.history.broken:
            raise BuildError(f"{commit}: does not build")
        return SimulatedBuild(commit, self.build_s)

    def measure(self, built: SimulatedBuild) -> BuildMeasurement:
        """Measure a commit once; tests whose level is infinite fail."""
        history, commit = self.history, built.commit
        noise = history.model.noise
        key = (history.range.history.index(commit) + 1, self.measured.get(commit, 0))
        common = noise.common(history.random("common", *key)) if noise.shared else 0.0
        minute = min(int((self.clock_s + self.measure_s / 2) / 60), self._drift.shape[1] - 1)
        change = history.change(commit)
        number = sum(self.measured.values())
        variant = self.measured.get(commit, 0) % noise.variants
        values, failed = {}, {}
        for test, (name, factor) in enumerate(zip(history.tests, history.model.tests, strict=True)):
            level = factor * change if factor else 0.0
            if math.isinf(level):
                failed[name] = "no packet came back"
                continue
            level += common + history.layout(commit, test, variant) + float(self._drift[test, minute])
            drawn = self._draw(noise, key, number, test)
            values[name] = MetricSamples(tuple(_LEVEL * math.exp((level + each) / 100) for each in drawn))
        started = _START + timedelta(seconds=self.clock_s)
        self.clock_s += self.measure_s
        self.measured[commit] = self.measured.get(commit, 0) + 1
        finished = _START + timedelta(seconds=self.clock_s)
        return BuildMeasurement(commit, started, finished, values, failed, variant=variant)

    def _draw(self, noise: SimulatedNoise, key: tuple[int, int], number: int, test: int) -> Sequence[float]:
        """Draw the deviation of each sample of a measurement of a test.

        :param key: the commit's number, and the number of its earlier measurements.
        :param number: the number of all earlier measurements.
        """
        if self.history.model.recording:
            return [float(each) for each in self._courses[test][number % _MEASUREMENTS]]
        drawn = noise.draw(self.history.random("measurement", *key, test))
        if not noise.remembers:
            return drawn
        return [float(self._courses[test][number % _MEASUREMENTS]) + each for each in drawn]

    @cached_property
    def _courses(self) -> list[Levels]:
        """The sequence of noise of each test over successive measurements."""
        history, model = self.history, self.history.model
        if model.recording:
            return [
                model.recording.replay(_MEASUREMENTS, history.random("recording", test))
                for test in range(len(history.tests))
            ]
        return [
            model.noise.course(_MEASUREMENTS, history.random("course", test))
            for test in range(len(history.tests))
        ]

    @cached_property
    def _drift(self) -> Levels:
        drifts = self.history.model.drifts
        found = np.zeros((len(self.history.tests), _MINUTES if drifts else 1))
        for test in range(len(found)):
            random = self.history.random("drift", test)
            for drift in drifts:
                found[test] += drift.levels(_MINUTES, random)
        return found


def bisect(strategy: Strategy, testbed: SimulatedTestbed) -> tuple[BisectOutcome, BisectState]:
    """Bisect as a session does, without a file.

    :returns: the outcome, and the final state.
    """
    commit_range = testbed.history.range
    state = BisectState(commit_range)
    builds: dict[str, SimulatedBuild] = {}
    for end in (commit_range.old, commit_range.history.new):
        state = _build(testbed, builds, state, end)
    while True:
        step = strategy.next(state)
        if isinstance(step, BisectOutcome):
            return step, state
        state = _build(testbed, builds, state.with_step(step), step.commit)
        if step.commit in builds:
            state = state.with_measured(testbed.measure(builds[step.commit]), step.against)


def _build(
    testbed: SimulatedTestbed, builds: dict[str, SimulatedBuild], state: BisectState, commit: str
) -> BisectState:
    if commit in builds:
        return state
    try:
        builds[commit] = testbed.build(commit)
    except BuildError as error:
        return state.with_broken(commit, str(error))
    return state.with_built(commit, builds[commit].took_s)
