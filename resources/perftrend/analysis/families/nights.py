"""The values of the runs of many traces made comparable, how long their noise lasts, and simulated ones.

Values are relative, without what a run has in common, and limited. What all traces of a run have in common is
the machine, or a change of everything. It is the median over all traces, weighted by their precision, and is
kept apart.

A machine that is fast today is often fast tomorrow, too. The average of m runs varies less than one run, by
1/m if runs are independent, and by more than that if they resemble each other. The noise is described by its
autocorrelation a φᵏ after k runs: φ says how long a state lasts, and a is the part of the variance that
lasts.

Simulated nights, for tests, benchmarks and users, have what all traces share, and what each adds. Each trace
has its own noise, with heavy tails. A run has a common part, and the traces of a driver may have one, too.
Noise can last for several runs, and traces can have two modes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from perftrend.model import Samples

_LAGS = (1, 2, 3)
_LEAST = 0.02
"""A smaller autocorrelation is none."""
_SLOWEST, _FASTEST = 0.97, 0.05
_ROUNDS = 5

LIMIT = 2.5
"""Values farther away, in standard deviations of the trace, count as this far: one bad trace is no family."""
MAD_PER_SIGMA = 0.6745
"""The median absolute deviation of the normal distribution."""
_SMALLEST_SCALE = 1e-4
"""Relative deviation of a trace that hardly varies, such as one of whole kilobytes."""

_PARAMETERS = {"path": 10, "frame": 3, "cores": 3, "driver": 2, "metric": 2}


class NoiseMemory(NamedTuple):
    """The autocorrelation of noise."""

    share: float = 0.0
    """Part of the variance that lasts, a."""
    decay: float = 0.0
    """Factor from run to run, φ."""

    def inflation(self, most: int) -> Samples:
        """Return the variance of the average of m runs, relative to independent ones.

        It is 1 + 2a Σ (1 - k/m) φᵏ, with k from 1 to m - 1.

        :returns: for m from 0 to ``most``.
        """
        lags = np.arange(most + 1)
        powers = np.where(lags > 0, self.decay ** np.maximum(lags, 1), 0.0)
        sums = np.concatenate([[0.0], np.cumsum(powers)[:-1]])
        weighted = np.concatenate([[0.0], np.cumsum(lags * powers)[:-1]])
        inflated: Samples = 1.0 + 2.0 * self.share * (sums - weighted / np.maximum(lags, 1))
        return inflated


def autocorrelations(rows: Samples) -> tuple[Samples, Samples]:
    """Return the autocorrelations of columns after one, two and three runs, and their sums of squares.

    :param rows: shape (runs, columns), without gaps.
    :returns: shapes (3, columns) and (columns,).
    """
    runs = len(rows)
    deviations = rows - rows.mean(axis=0)
    squares = (deviations**2).sum(axis=0)
    products = [(deviations[lag:] * deviations[:-lag]).sum(axis=0) * runs / (runs - lag) for lag in _LAGS]
    return np.stack(products) / np.where(squares > 0, squares, np.inf), squares


def memory_of(correlations: Samples, runs: int) -> NoiseMemory:
    """Return the memory of noise from its autocorrelations after one, two and three runs.

    An average that is estimated from the same runs makes them too small, by its own variance; the estimate
    is repeated with that variance.
    """
    found, inflation = NoiseMemory(), 1.0
    for _ in range(_ROUNDS):
        first, second, third = ((each + inflation / runs) / (1 + inflation / runs) for each in correlations)
        if first <= _LEAST:
            return NoiseMemory()
        decay = max(np.sqrt(max(third, 0.0) / first), max(second, 0.0) / first)
        decay = float(np.clip(decay, _FASTEST, _SLOWEST))
        found = NoiseMemory(float(min(first / decay, 1.0)), decay)
        inflation = float(found.inflation(runs)[-1])
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Nights:
    """The values of traces, shape (runs, traces), as differences of logarithms; NaN for gaps."""

    relative: Samples
    """Of each trace from its level."""
    rest: Samples
    """The same without the common part."""
    common: Samples
    """What all traces of a run have in common, shape (runs,)."""
    scale: Samples
    """Standard deviation of each trace, estimated from its median absolute deviation; shape (traces,)."""

    @classmethod
    def of(cls, relative: Samples) -> Self:
        """Separate what runs have in common.

        :param relative: differences of logarithms, shape (runs, traces), NaN for gaps; each trace has a
            value.
        """
        relative = relative - np.nanmedian(relative, axis=0)
        common = weighted_medians(relative, 1.0 / _scale(relative))
        rest = relative - common[:, np.newaxis]
        rest -= np.nanmedian(rest, axis=0)
        return cls(relative, rest, common, _scale(rest))

    def without(self, change: float, run: int, traces: NDArray[np.intp]) -> Nights:
        """Return the nights without a change of some traces that began with a run."""
        relative = self.relative.copy()
        relative[run:, traces] -= change
        return Nights.of(relative)

    def compared_with_others(self, traces: NDArray[np.intp]) -> Samples:
        """Return the values of some traces without what all others have in common."""
        others = np.delete(np.arange(self.relative.shape[1]), traces)
        common = weighted_medians(self.relative[:, others], 1.0 / self.scale[others])
        return self.relative[:, traces] - common[:, np.newaxis]

    def limited(self) -> Samples:
        """Return the values in standard deviations of each trace, limited, 0 for gaps."""
        limited = np.clip(self.rest / self.scale, -LIMIT, LIMIT)
        return np.nan_to_num(limited, copy=False)


def _scale(values: Samples) -> Samples:
    scale = np.nanmedian(np.abs(values), axis=0) / MAD_PER_SIGMA
    return np.maximum(scale, _SMALLEST_SCALE)


def weighted_medians(values: Samples, weights: Samples) -> Samples:
    """Return the weighted median of each row; NaN weighs nothing, and a row of NaN has the median 0.

    :param values: shape (rows, n).
    :param weights: shape (n,).
    """
    order = np.argsort(values, axis=1)
    weighed = np.where(np.isnan(values), 0.0, weights)
    sums = np.take_along_axis(weighed, order, axis=1).cumsum(axis=1)
    places = (sums >= sums[:, -1:] / 2.0).argmax(axis=1)
    chosen = np.take_along_axis(order, places[:, np.newaxis], axis=1)
    return np.nan_to_num(np.take_along_axis(values, chosen, axis=1)[:, 0])


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
