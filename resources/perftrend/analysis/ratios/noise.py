"""Noise of single values, estimated from the values before them or from their trials.

A result varies from run to run by more than its trials suggest, because they share the effects of the
machine's start. The noise is therefore estimated from the course of the trace: the differences between a
value and the one before it have twice the variance of the values,

    s² = Σ Δ² / (2 m c),

over all but the tenth of the m differences that are the largest, which may be changes. c is the remaining
part of the variance of a normal distribution, (f - 2 z φ(z)) / f with the remaining fraction f and
z = Φ⁻¹((1 + f) / 2). Everything is in natural logarithms: 0.01 is 1 %.

Source: von Neumann, Kent, Bellinson and Hart, The Mean Square Successive Difference, 1941.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from perftrend.model import Samples

LEAST_DIFFERENCES = 6
"""Fewer do not determine the noise."""
_CHANGES = 10
"""One in this number of differences may be a change."""
_NORMAL = NormalDist()


def noise_of_history(values: Samples) -> tuple[Samples, NDArray[np.int64]]:
    """Estimate the relative standard deviation of single values of n traces.

    :param values: shape (n, columns), in the order of time, NaN for holes.
    :returns: the deviations, shape (n,), NaN if there are too few values or one is not above zero, and
        their degrees of freedom, 0 there.
    """
    traces, columns = values.shape
    if columns <= LEAST_DIFFERENCES:
        return np.full(traces, np.nan), np.zeros(traces, dtype=np.int64)
    squares = _squared_differences(values)
    counts = np.isfinite(squares).sum(axis=1)
    known = (counts >= LEAST_DIFFERENCES) & ~(values <= 0).any(axis=1)
    used = np.where(known, counts - counts // _CHANGES, 1)
    # NaN is sorted behind all numbers.
    sums = np.nancumsum(np.sort(squares, axis=1), axis=1)
    left = np.array([_variance_fraction(count) for count in range(columns + 1)])
    variances = sums[np.arange(traces), used - 1] / (2 * used * left[np.where(known, counts, 0)])
    deviations = np.where(known, np.sqrt(variances), np.nan)
    # Neighbouring differences share a value: m of them are worth two thirds of m; some are left out.
    return deviations, np.where(known, np.maximum(counts // 2, 1), 0)


def noise_of_samples(samples: Sequence[float]) -> tuple[float, int]:
    """Estimate the relative standard error of the average of some trials.

    :returns: the error and its degrees of freedom; NaN and 0 if there are fewer than two, or one of them
        is not above zero.
    """
    count = len(samples)
    if count < 2 or not all(0 < sample < math.inf for sample in samples):  # noqa: PLR2004 - one has no error
        return math.nan, 0
    logs = np.log(samples)
    return float(logs.std(ddof=1)) / math.sqrt(count), count - 1


def _squared_differences(values: Samples) -> Samples:
    """Return for each value the squared difference of its logarithm from that of the last one before it."""
    logs = np.log(np.where(values > 0, values, np.nan))
    before = np.where(np.isfinite(logs), logs, np.nan)[:, :-1]
    for place in range(1, before.shape[1]):
        holes = np.isnan(before[:, place])
        before[holes, place] = before[holes, place - 1]
    squares: Samples = (logs[:, 1:] - before) ** 2
    return squares


@lru_cache(maxsize=1024)
def _variance_fraction(count: int) -> float:
    """Return the fraction of the variance that is left without the largest of ``count`` values."""
    share = (count - count // _CHANGES) / count if count else 1.0
    if share == 1.0:
        return 1.0
    z = _NORMAL.inv_cdf((1 + share) / 2)
    return (share - 2 * z * _NORMAL.pdf(z)) / share
