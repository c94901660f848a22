"""Functions of each row: every row is converted to another one of the same length.

Each function accepts a matrix of shape (rows, points), finite or NaN for holes, and returns the same shape.
The caller converts results that are not finite to holes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.formula.averages import centre_lines
from perftrend.analysis.trimmed_statistics import OUTLIER_DISTANCE
from perftrend.model import Samples

SMALLEST_DEVIATION = 0.001
"""A row with at most this standard deviation is not scaled up: its noise would look like a change."""


def normalise(rows: Samples, smallest: float = SMALLEST_DEVIATION) -> Samples:
    """Scale each row to the mean 0 and the standard deviation 1; holes remain.

    :param smallest: standard deviation, in the unit of the rows, up to which a row is only shifted to mean 0.
    """
    found = centre_lines(rows, axis=1)
    scaled = found.deviation > smallest
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        divisor = np.where(scaled, found.scaled_deviation, 1 / found.scale)
        quotient: Samples = found.offsets / divisor
        return quotient


def fill_holes(rows: Samples) -> Samples:
    """Fill holes with the next value to the right, at the end with the last one; rows of holes with zeros."""
    flat = rows.flatten()
    missing = np.isnan(flat)
    holes = np.flatnonzero(missing)
    places = np.concatenate([[-1], np.flatnonzero(~missing), [flat.size]])
    values = flat[places[1:-1]]
    # The number of values before each hole: its place minus the holes before it.
    before = holes - np.arange(holes.size)
    row, last, following = (
        each // max(rows.shape[1], 1) for each in (holes, places[before], places[before + 1])
    )
    values = np.concatenate([[0.0], values, [0.0]])
    flat[holes] = np.where(following == row, values[before + 1], np.where(last == row, values[before], 0.0))
    return flat.reshape(rows.shape)


def logarithm(rows: Samples) -> Samples:
    """Return log10 of each value, a hole for a value of 0 or less."""
    with np.errstate(divide="ignore", invalid="ignore"):
        result: Samples = np.log10(rows)
        return result


def own_average(rows: Samples) -> Samples:
    """Return constant rows: the average of each, holes if it has only holes."""
    return _constant(centre_lines(rows, axis=1).average, rows)


def own_deviation(rows: Samples) -> Samples:
    """Return constant rows: the population standard deviation of each."""
    return _constant(centre_lines(rows, axis=1).deviation, rows)


def own_variation(rows: Samples) -> Samples:
    """Return constant rows: standard deviation over average of each, a hole if the average is 0."""
    found = centre_lines(rows, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return _constant(found.deviation / found.average, rows)


def own_step(rows: Samples) -> Samples:
    """Return constant rows: the average of the first half over that of the second.

    The middle point of an odd number belongs to the second half.
    """
    middle = rows.shape[1] // 2
    first, second = (centre_lines(half, axis=1).average for half in (rows[:, :middle], rows[:, middle:]))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return _constant(first / second, rows)


def scale_by_average(rows: Samples) -> Samples:
    """Divide each row by its average; an average of 0 gives holes."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        quotient: Samples = rows / centre_lines(rows, axis=1).average
        return quotient


def scale_by_mean(rows: Samples, mean: float) -> Samples:
    """Divide each row by a mean that is known from elsewhere; a mean of 0 gives holes."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        quotient: Samples = rows / np.float64(mean)
        return quotient


def without_outliers(rows: Samples) -> Samples:
    """Replace the values that are 1.5 IQR or more outside their row's quartiles with holes.

    Quartiles and outliers are those of :mod:`perftrend.analysis.trimmed_statistics`: quartiles by linear
    interpolation, and a value that equals one is not an outlier. Fewer than four values have no outliers.
    """
    if not rows.shape[1]:
        return rows
    ranked = np.sort(rows, axis=1)
    sizes = np.count_nonzero(~np.isnan(rows), axis=1, keepdims=True)
    first, third = _quartile(ranked, sizes, 0.25), _quartile(ranked, sizes, 0.75)
    with np.errstate(over="ignore", invalid="ignore"):
        reach = OUTLIER_DISTANCE * (third - first)
        below = (rows < first) & (first - rows >= reach)
        above = (rows > third) & (rows - third >= reach)
        return np.where(below | above, np.nan, rows)


def _constant(column: Samples, rows: Samples) -> Samples:
    return np.broadcast_to(column, rows.shape)


def _quartile(ranked: Samples, sizes: NDArray[np.signedinteger], share: float) -> Samples:
    rank = share * np.maximum(sizes - 1, 0)
    below = np.floor(rank).astype(np.int64)
    low = np.take_along_axis(ranked, below, axis=1)
    high = np.take_along_axis(ranked, np.minimum(below + 1, np.maximum(sizes - 1, 0)), axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        quartile: Samples = low + (rank - below) * (high - low)
        return quartile
