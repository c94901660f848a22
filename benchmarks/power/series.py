"""Synthetic traces with known changes, in packets per second around 10 million.

Groups last 20 to 60 runs; each change is a step up or down. Every scenario has its own noise, with
effects that must not be reported as changes: outliers, heavy tails, two modes, drift, restarts, groups that
are noisier than others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from perftrend.bisect.simulator.noise import Recording
from perftrend.model import Samples

Generator: TypeAlias = np.random.Generator

LEVEL_PPS = 1e7


@dataclass(frozen=True, slots=True)
class Scenario:
    """Noise of relative size, and the relative steps between the groups."""

    noise: Callable[[Generator, int], Samples]
    """Returns relative deviations, shape (n,)."""
    least_step: float = 0.025
    greatest_step: float = 0.08
    spreads: tuple[float, ...] = (1.0,)
    """Each group's noise is larger by one of these factors."""


def normal(deviation: float) -> Callable[[Generator, int], Samples]:
    """Return normal noise."""
    return lambda rng, size: rng.normal(0.0, deviation, size)


def with_outliers(share: float, deviation: float = 0.005) -> Callable[[Generator, int], Samples]:
    """Return normal noise with single runs 5 to 30 % off, on either side."""

    def noise(rng: Generator, size: int) -> Samples:
        off = rng.random(size) < share
        distances: Samples = rng.choice([-1.0, 1.0], size) * rng.uniform(0.05, 0.3, size)
        return rng.normal(0.0, deviation, size) + off * distances

    return noise


def heavy_tails(rng: Generator, size: int) -> Samples:
    """Return noise by Student's t of three degrees of freedom, its core as wide as normal noise of 0.5 %."""
    return 0.005 * rng.standard_t(3, size)


def two_modes(rng: Generator, size: int) -> Samples:
    """Return noise of 0.5 % in which every tenth run, on average, is 3 % lower."""
    lower: Samples = rng.choice([0.03, 0.0], size, p=[0.1, 0.9])
    noise: Samples = rng.normal(0.0, 0.005, size)
    return noise - lower


def linear_drift(rng: Generator, size: int) -> Samples:
    """Return noise of 0.5 % about a line that rises by 3 % over the series."""
    return rng.normal(0.0, 0.005, size) + np.linspace(0.0, 0.03, size)


def uniform(rng: Generator, size: int) -> Samples:
    """Return uniform noise as wide as normal noise of 0.5 %."""
    return rng.uniform(-0.005 * math.sqrt(3), 0.005 * math.sqrt(3), size)


def log_normal(rng: Generator, size: int) -> Samples:
    """Return noise like that of times: never much shorter, at times longer; its core is 10 % wide."""
    longer: Samples = rng.lognormal(0.0, 0.1, size)
    return longer - 1


def restarts(rng: Generator, size: int) -> Samples:
    """Return runs that restarts move by 1 %, each the average of ten trials that scatter by 1 %."""
    of_trials: Samples = rng.normal(0.0, 0.01, (size, 10)).mean(axis=1)
    return rng.normal(0.0, 0.01, size) + of_trials


def student(freedom: int) -> Callable[[Generator, int], Samples]:
    """Return noise by Student's t, its core as wide as normal noise of 0.5 %."""

    def noise(rng: Generator, size: int) -> Samples:
        values: Samples = 0.005 * rng.standard_t(freedom, size)
        return values

    return noise


def autoregressive(r: float) -> Callable[[Generator, int], Samples]:
    """Return noise of 0.5 % that is correlated with the run before by a factor of r."""

    def noise(rng: Generator, size: int) -> Samples:
        values: Samples = rng.normal(0.0, 0.005 * math.sqrt(1 - r**2), size)
        values[0] = rng.normal(0.0, 0.005)
        for index in range(1, size):
            values[index] += r * values[index - 1]
        return values

    return noise


correlated = autoregressive(0.4)


def starts(distance: float) -> Callable[[Generator, int], Samples]:
    """Return starts at one of two speeds, above or below the average by a distance, at a noise of 0.15 %."""

    def noise(rng: Generator, size: int) -> Samples:
        values: Samples = rng.choice([-distance, distance], size) + rng.normal(0.0, 0.0015, size)
        return values

    return noise


def weekly_modes(distance: float) -> Callable[[Generator, int], Samples]:
    """Return noise of 0.5 % in one of two modes at a distance, each for seven runs on average."""

    def noise(rng: Generator, size: int) -> Samples:
        moves = rng.random(size) < 1 / 7
        moves[0] = rng.random() < 1 / 2
        values: Samples = rng.normal(0.0, 0.005, size) - distance * (np.cumsum(moves) % 2)
        return values

    return noise


def slow_walk(rng: Generator, size: int) -> Samples:
    """Return noise of 0.5 % about a random walk with steps of a tenth of that per run."""
    values: Samples = rng.normal(0.0, 0.005, size) + np.cumsum(rng.normal(0.0, 0.0005, size))
    return values


def replay(recording: Recording) -> Callable[[Generator, int], Samples]:
    """Return the recorded noise of one program, one process of the recording per run, in their order.

    Neighbouring runs are then seconds apart, and more similar than those of two nights.
    """
    return lambda rng, size: np.expm1(recording.replay(size, rng).mean(axis=1) / 100)


def resample(recording: Recording) -> Callable[[Generator, int], Samples]:
    """Return the recorded noise of one program, one process from any place of the recording per run."""
    averages = recording.speeds.mean(axis=1)
    return lambda rng, size: np.expm1(rng.choice(averages, size) / 100)


SCENARIOS: dict[str, Scenario] = {
    "clean 0.5 %": Scenario(normal(0.005)),
    "2 % outliers": Scenario(with_outliers(0.02)),
    "5 % outliers": Scenario(with_outliers(0.05)),
    "heavy tails": Scenario(heavy_tails),
    "two modes": Scenario(two_modes),
    "noise 1 %": Scenario(normal(0.01), 0.02, 0.1),
    "noise 2 %": Scenario(normal(0.02), 0.02, 0.1),
    "noise 3 %": Scenario(normal(0.03), 0.02, 0.1),
    "restarts": Scenario(restarts, 0.02, 0.1),
    "correlated": Scenario(correlated),
    "drift": Scenario(linear_drift),
    "uneven": Scenario(normal(0.003), 0.04, 0.1, spreads=(1.0, 5.0)),
}


def generate_trace(scenario: Scenario, rng: Generator, size: int) -> tuple[Samples, list[int]]:
    """Return a trace and the positions of its changes."""
    starts: list[int] = []
    position = int(rng.integers(20, 61))
    while position < size - 10:
        starts.append(position)
        position += int(rng.integers(20, 61))
    level = np.ones(size)
    for start in starts:
        step = rng.uniform(scenario.least_step, scenario.greatest_step) * rng.choice([-1.0, 1.0])
        level[start:] *= 1 + step
    noise = scenario.noise(rng, size)
    if len(scenario.spreads) > 1:
        for start, stop in pairwise([0, *starts, size]):
            noise[start:stop] *= rng.choice(scenario.spreads)
    return LEVEL_PPS * level * (1 + noise), starts
