"""A simulated history, with the change of each of its commits, and a testbed that builds and measures it.

A history knows the properties that a search should find. The testbed has a clock of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from types import MappingProxyType

import numpy as np

from perftrend import errors
from perftrend.bisect.simulator.noise import Drift, Levels, Recording, SimulatedNoise
from perftrend.bisect.state import BisectOutcome, BisectState, CommitRange, RangeCommit, Strategy
from perftrend.model import BuildMeasurement, MetricSamples

Random = np.random.Generator
_STREAMS = ("commits", "drift", "layout", "measurement", "common", "course", "recording", "unvaried")
OLD = "0" * 40
"""The commit that a range begins after."""
_LONGEST_BRANCH = 6
_GOES_ON = 0.5
"""Probability that the mainline continues alongside a branch."""
_STRETCH = 4.0
"""Commits that do not build come in stretches of this length on average."""

_START = datetime(2026, 3, 2, 18, 0, tzinfo=UTC)
_MINUTES = 14 * 24 * 60
"""Duration of the drift, which is constant afterwards."""
_LEVEL = 1e7
_MEASUREMENTS = 4096
"""Length of the sequences of noise, which repeat afterwards."""


@dataclass(frozen=True, slots=True)
class HistoryModel:
    """The parameters of simulated histories.

    :raises SettingsError: if there are fewer commits than changes, or no test.
    """

    size: int = 64
    """Commits between old and new, new included."""
    changes: tuple[float, ...] = (3.0,)
    """Sizes of the changes in 100 ln(value), about per cent; empty: nothing changes. Minus infinity: the
    tests fail from that commit on."""
    tests: tuple[float, ...] = (1.0,)
    """Factors of the changes in each test; 0: they do not affect it."""
    noise: SimulatedNoise = field(default_factory=SimulatedNoise)
    recording: Recording | None = None
    """The recording of a machine that is replayed instead of the noise."""
    drifts: tuple[Drift, ...] = ()
    """They are added; each test has its own."""
    broken: float = 0.0
    """Fraction of the commits that do not build, in stretches."""
    branches: float = 0.0
    """The probability that a branch, which is merged, begins at a commit of the mainline."""

    def __post_init__(self) -> None:
        if not max(1, len(self.changes)) <= self.size:
            raise errors.SettingsError(
                f"size is {self.size} with {len(self.changes)} changes; give each a commit"
            )
        if not self.tests:
            raise errors.SettingsError("tests is empty; give a factor for at least one test")
        for name in ("broken", "branches"):
            if not 0 <= getattr(self, name) < 1:
                raise errors.SettingsError(f"{name} is {getattr(self, name)}; give a fraction below 1")


@dataclass(frozen=True)
class SimulatedHistory:
    """One history of a model."""

    model: HistoryModel
    seed: tuple[int, ...]
    range: CommitRange = field(init=False)
    culprits: Mapping[str, float] = field(init=False)
    """Changes by commit, see :attr:`HistoryModel.changes`."""
    broken: frozenset[str] = field(init=False)
    """Commits that do not build."""

    def __post_init__(self) -> None:
        model, random = self.model, self.random("commits")
        chosen = commits(model.size, model.branches, random)
        places = tuple(int(each) for each in random.choice(model.size, len(model.changes), replace=False))
        broken = unbuildable(model.size, model.broken, places, random)
        culprits = {chosen[place].hash: size for place, size in zip(places, model.changes, strict=True)}
        object.__setattr__(self, "range", CommitRange(OLD, chosen))
        object.__setattr__(self, "culprits", MappingProxyType(culprits))
        object.__setattr__(self, "broken", frozenset(chosen[index].hash for index in broken))

    @property
    def tests(self) -> tuple[str, ...]:
        """Names of the tests."""
        return tuple(f"test {number}" for number in range(1, len(self.model.tests) + 1))

    def random(self, stream: str, *numbers: int) -> Random:
        """Return the random generator of a purpose; the same arguments give the same numbers.

        :param numbers: three at most.
        """
        # All keys have the same length: otherwise, a key would equal one that continues it with zeros.
        key = [*self.seed, 1 + _STREAMS.index(stream), *numbers, *[0] * (3 - len(numbers))]
        return np.random.default_rng(key)

    def change(self, commit: str) -> float:
        """Return the sum of the changes that a commit contains, in per cent."""
        history = self.range.history
        contained = history.reachable_from(commit)
        return math.fsum(
            size for culprit, size in self.culprits.items() if contained >> history.index(culprit) & 1
        )

    def layout(self, commit: str, test: int, variant: int = 0) -> float:
        """Return the deviation of a commit by one of its layouts, in per cent."""
        noise = self.model.noise
        if not noise.layout:
            return 0.0
        index = self.range.history.index(commit) + 1
        of_variant = float(self.random("layout", index, test, variant).standard_normal())
        of_commit = float(self.random("unvaried", index, test).standard_normal())
        return noise.layout * (
            math.sqrt(1 - noise.unvaried) * of_variant + math.sqrt(noise.unvaried) * of_commit
        )

    def smallest_set(self, commit: str) -> tuple[str, ...]:
        """Return the commits that measurements cannot distinguish from one, including itself, oldest first.

        Only commits that build can be measured.
        """
        history = self.range.history
        bit = 1 << history.index(commit)
        alike = (1 << len(history.commits)) - 1
        for each, contained in zip(history.commits, history.ancestors, strict=True):
            if each not in self.broken:
                alike &= contained if contained & bit else ~contained
        return history.hashes(alike)


def commits(size: int, branches: float, random: np.random.Generator) -> tuple[RangeCommit, ...]:
    """Return commits, oldest first.

    :param size: the number of commits, all of which the last one contains.
    :param branches: the probability that a branch begins at a commit of the mainline. It has up to six
        commits, and is merged.
    """
    parents: list[list[int]] = []
    tip = -1
    while len(parents) < size:
        length = int(random.integers(1, _LONGEST_BRANCH + 1)) if random.random() < branches else 0
        if length and size - len(parents) > length + 1:
            tip = _append_branch(parents, tip, length, goes_on=random.random() < _GOES_ON)
        else:
            parents.append([tip])
            tip = len(parents) - 1
    names = [f"{index + 1:040x}" for index in range(size)]
    return tuple(
        RangeCommit(names[index], tuple(names[each] if each >= 0 else OLD for each in known))
        for index, known in enumerate(parents)
    )


def unbuildable(
    size: int, share: float, culprits: tuple[int, ...], random: np.random.Generator
) -> frozenset[int]:
    """Choose stretches of commits that do not build; in every second history, one is at a culprit.

    :param share: minimum fraction of the commits before the last one. The last one always builds.
    """
    if not share:
        return frozenset()
    found: frozenset[int] = frozenset()
    if culprits and random.random() < 0.5:  # noqa: PLR2004 - in every second history
        length = int(random.geometric(1 / _STRETCH))
        start = culprits[0] - int(random.integers(0, length + 1))
        found = _stretch(start, length, size)
    while len(found) < share * (size - 1):
        found |= _stretch(int(random.integers(0, size)), int(random.geometric(1 / _STRETCH)), size)
    return found


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
            raise errors.BuildError(f"{commit}: does not build")
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


def _stretch(start: int, length: int, size: int) -> frozenset[int]:
    """Return the part of a stretch that is in the range, without the last commit."""
    return frozenset(range(max(start, 0), min(start + length, size - 1)))


def _append_branch(parents: list[list[int]], tip: int, length: int, *, goes_on: bool) -> int:
    """Append a branch of ``length`` commits and its merge, and return the merge."""
    side = tip
    for _ in range(length):
        parents.append([side])
        side = len(parents) - 1
    if goes_on:
        parents.append([tip])
        tip = len(parents) - 1
    parents.append([tip, side])
    return len(parents) - 1


def _build(
    testbed: SimulatedTestbed, builds: dict[str, SimulatedBuild], state: BisectState, commit: str
) -> BisectState:
    if commit in builds:
        return state
    try:
        builds[commit] = testbed.build(commit)
    except errors.BuildError as error:
        return state.with_broken(commit, str(error))
    return state.with_built(commit, builds[commit].took_s)
