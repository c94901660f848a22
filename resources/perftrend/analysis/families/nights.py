"""The values of the runs of many traces made comparable, and how long their noise lasts.

Values are relative, without what a run has in common, and limited. What all traces of a run have in common is
the machine, or a change of everything. It is the median over all traces, weighted by their precision, and is
kept apart.

A machine that is fast today is often fast tomorrow, too. The average of m runs varies less than one run, by
1/m if runs are independent, and by more than that if they resemble each other. The noise is described by its
autocorrelation a φᵏ after k runs: φ says how long a state lasts, and a is the part of the variance that
lasts.
"""

from __future__ import annotations

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
