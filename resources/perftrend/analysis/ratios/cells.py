"""Cells: the ratios of n pairs of values, with their noise.

By the Skia Perf convention, the number of a cell is left/right if left is the larger one, else -right/left:
its size is the factor between the two, its sign shows which one is larger. Equal values have the ratio 1. A
ratio needs two values above zero.

Whether a difference is more than noise is decided by the interval of the logarithm of the ratio, by Student's
t with the degrees of freedom of Welch and Satterthwaite.

A result varies from run to run by more than its trials suggest, because they share the effects of the
machine's start. The noise is therefore estimated from the course of the trace: the differences between a
value and the one before it have twice the variance of the values,

    s² = Σ Δ² / (2 m c),

over all but the tenth of the m differences that are the largest, which may be changes. c is the remaining
part of the variance of a normal distribution, (f - 2 z φ(z)) / f with the remaining fraction f and
z = Φ⁻¹((1 + f) / 2). Everything is in natural logarithms: 0.01 is 1 %.

Source: "Skia Perf: Design", section Comparing bench results across verticals; Welch, The generalization of
"Student's" problem when several different population variances are involved, 1947; von Neumann, Kent,
Bellinson and Hart, The Mean Square Successive Difference, 1941.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.significance import quantile
from perftrend.model import Samples

CONFIDENCE = 0.99
"""A table has many cells: with 0.95, one in twenty would show a difference that does not exist."""
_MOST_FREEDOM = 200
_LARGEST = 1e300

LEAST_DIFFERENCES = 6
"""Fewer do not determine the noise."""
_CHANGES = 10
"""One in this number of differences may be a change."""
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """One side of n pairs; arrays of the shape (n,)."""

    value: Samples
    """NaN if there is none."""
    error: Samples
    """Relative standard error; NaN if not known."""
    freedom: NDArray[np.int64]
    """Its degrees of freedom; 0 if not known."""


@dataclass(frozen=True, slots=True, eq=False)
class Ratios:
    """The results of n cells; arrays of the shape (n,), NaN if a cell has no ratio."""

    plain: Samples
    """left/right."""
    signed: Samples
    """By the Skia Perf convention: left/right if left is larger, else -right/left."""
    gain: Samples
    """ln(left/right), with its sign reversed if lower is better: above zero if left is better."""
    low: Samples
    """The plain ratio is between low and high with the confidence; NaN if the noise is not known."""
    high: Samples
    is_noise: NDArray[np.bool_]
    """Whether the interval contains 1: no difference is shown. False if the noise is not known."""


def ratios(
    left: Values, right: Values, *, lower_is_better: NDArray[np.bool_], confidence: float = CONFIDENCE
) -> Ratios:
    """Compare n pairs of values.

    :param lower_is_better: shape (n,).
    """
    usable = (left.value > 0) & (right.value > 0) & np.isfinite(left.value) & np.isfinite(right.value)
    one, other = (np.where(usable, side.value, np.nan) for side in (left, right))
    with np.errstate(over="ignore", under="ignore"):
        plain = one / other
    # Values too far apart for a finite ratio are treated like missing ones.
    plain[~((plain > 1 / _LARGEST) & (plain < _LARGEST))] = np.nan
    size = np.log(plain)
    with np.errstate(over="ignore"):
        signed = np.where(plain >= 1, plain, -other / one)
    signed[np.isnan(plain)] = np.nan
    half = _half_width(left, right, confidence)
    with np.errstate(over="ignore", under="ignore"):
        low, high = np.exp(size - half), np.exp(size + half)
    is_noise = np.abs(size) <= half
    return Ratios(plain, signed, np.where(lower_is_better, -size, size), low, high, is_noise)


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


def _half_width(left: Values, right: Values, confidence: float) -> Samples:
    """Return half of the interval of ln(left/right); NaN if the noise of a side is not known."""
    one, other = left.error**2, right.error**2
    known = (left.freedom > 0) & (right.freedom > 0) & np.isfinite(one + other)
    freedom_one, freedom_other = (np.where(known, side.freedom, 1) for side in (left, right))
    one, other = np.where(known, one, 0.0), np.where(known, other, 0.0)
    total = one + other
    parts = one**2 / freedom_one + other**2 / freedom_other
    freedom = np.where(parts > 0, total**2 / np.where(parts > 0, parts, 1.0), _MOST_FREEDOM)
    whole = np.clip(freedom, 1, _MOST_FREEDOM).astype(np.int64)
    distinct, places = np.unique(whole, return_inverse=True)
    t = np.array([quantile(confidence, int(each)) for each in distinct])[places]
    return np.where(known, t * np.sqrt(total), np.nan)


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
