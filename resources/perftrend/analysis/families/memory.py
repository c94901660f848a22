"""How long the noise of runs lasts: a machine that is fast today is often fast tomorrow, too.

The average of m runs varies less than one run, by 1/m if runs are independent, and by more than that if they
resemble each other. The noise is described by its autocorrelation a φᵏ after k runs: φ says how long a state
lasts, and a is the part of the variance that lasts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from perftrend.model import Samples

_LAGS = (1, 2, 3)
_LEAST = 0.02
"""A smaller autocorrelation is none."""
_SLOWEST, _FASTEST = 0.97, 0.05
_ROUNDS = 5


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
