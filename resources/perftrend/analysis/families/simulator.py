"""Simulated nights of many traces, for tests, benchmarks and users: what all share, and what each adds.

Each trace has its own noise, with heavy tails. A run has a common part, and the traces of a driver may
have one, too. Noise can last for several runs, and traces can have two modes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from perftrend.model import Samples

_PARAMETERS = {"path": 10, "frame": 3, "cores": 3, "driver": 2, "metric": 2}


@dataclass(frozen=True, slots=True)
class NoiseOfNights:
    """The noise of simulated nights; all deviations are relative."""

    least: float = 0.005
    """Deviation of the quietest trace."""
    usual: float = 0.01
    """Median of the deviations, which are log-normal."""
    most: float = 0.03
    """Deviation of the noisiest trace."""
    common: float = 0.005
    """Deviation that all traces of a run share."""
    of_driver: float = 0.0
    """Deviation that the traces of one driver share in a run."""
    memory: float = 0.0
    """Autocorrelation of the noise of each trace, and of each driver, from run to run."""
    degrees: float = 4.0
    """Degrees of freedom of Student's t, above 2; infinite for normal noise."""
    modes: float = 0.0
    """Distance of two modes, between which each trace changes about once in seven runs."""


USUAL = NoiseOfNights()


def simulate(
    rng: np.random.Generator, *, traces: int = 300, runs: int = 120, noise: NoiseOfNights = USUAL
) -> tuple[Samples, list[Mapping[str, str]]]:
    """Return the values of traces without any change, shape (runs, traces), and their parameters."""
    parameters: list[Mapping[str, str]] = [
        {name: f"{name}{rng.integers(count)}" for name, count in _PARAMETERS.items()}
        | {"test": f"test{place}"}
        for place in range(traces)
    ]
    deviations = np.clip(noise.usual * np.exp(0.5 * rng.standard_normal(traces)), noise.least, noise.most)
    logarithms = _draw(rng, (runs, traces), noise) * deviations
    logarithms += noise.common * rng.standard_normal((runs, 1))
    drivers = np.array([int(each["driver"][-1]) for each in parameters])
    shared = _draw(rng, (runs, _PARAMETERS["driver"]), noise)
    logarithms += noise.of_driver * shared[:, drivers]
    if noise.modes:
        changes = rng.random((runs, traces)) < 1 / 7
        logarithms += noise.modes * (changes.cumsum(axis=0) % 2)
    return np.exp(rng.uniform(14.0, 17.0, traces) + logarithms), parameters


def _draw(rng: np.random.Generator, shape: tuple[int, int], noise: NoiseOfNights) -> Samples:
    """Return noise of variance 1 that lasts for several runs."""
    if np.isinf(noise.degrees):
        drawn = rng.standard_normal(shape)
    else:
        drawn = rng.standard_t(noise.degrees, shape) * np.sqrt(1 - 2 / noise.degrees)
    for run in range(1, shape[0]):
        drawn[run] = noise.memory * drawn[run - 1] + np.sqrt(1 - noise.memory**2) * drawn[run]
    return drawn
