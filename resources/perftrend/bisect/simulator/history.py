"""A simulated history: its commits, the change of each, and the properties that a search should find."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from perftrend import errors
from perftrend.bisect.simulator.commits import OLD, commits, unbuildable
from perftrend.bisect.simulator.drift import Drift
from perftrend.bisect.simulator.noise import Noise
from perftrend.bisect.simulator.recording import Recording
from perftrend.bisect.state import Range

Random = np.random.Generator
_STREAMS = ("commits", "drift", "layout", "measurement", "common", "course", "recording")


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
    noise: Noise = field(default_factory=Noise)
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
    range: Range = field(init=False)
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
        object.__setattr__(self, "range", Range(OLD, chosen))
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
        contained = history.contained(commit)
        return math.fsum(
            size for culprit, size in self.culprits.items() if contained >> history.index(culprit) & 1
        )

    def layout(self, commit: str, test: int, variant: int = 0) -> float:
        """Return the deviation of a commit by one of its layouts, in per cent."""
        if not self.model.noise.layout:
            return 0.0
        random = self.random("layout", self.range.history.index(commit) + 1, test, variant)
        return self.model.noise.layout * float(random.standard_normal())

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
