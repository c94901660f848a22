"""Averages and deviations along one axis of a matrix with holes, exact if all values are equal.

Values are processed relative to the smallest one of their line: equal values then have a deviation of exactly
0, and large values with small differences retain their digits. Lines with huge values are first scaled by a
power of two, which is exact, so that intermediate results do not overflow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perftrend.model import Samples

_HUGE = 1e145
"""Above it a sum of squares may overflow."""

_SUM_OF_SQUARES = ("ij,ij->j", "ij,ij->i")
"""Along each axis."""


@dataclass(frozen=True, slots=True, eq=False)
class CentredLines:
    """The average of each line, and its values relative to that.

    A line is a column (axis 0) or a row (axis 1). Attributes of a line have an axis of size 1.
    """

    scaled: Samples
    """Value / scale, NaN for a hole; the shape of the values."""
    above: Samples
    """How far each is above the smallest of its line, 0 for a hole."""
    smallest: Samples
    """Of the scaled values of each line, NaN if it has only holes."""
    shift: Samples
    """The average of each line above its smallest."""
    scale: Samples
    counts: NDArray[np.intp]
    """Number of values that are not holes."""
    axis: int

    @property
    def average(self) -> Samples:
        """The average of each line, NaN if it has only holes."""
        return (self.smallest + self.shift) * self.scale

    @property
    def offsets(self) -> Samples:
        """(value - average) / scale, NaN for a hole."""
        offsets = self.scaled - self.smallest
        offsets -= self.shift
        return offsets

    @property
    def scaled_deviation(self) -> Samples:
        """Population standard deviation / scale."""
        squares = np.einsum(_SUM_OF_SQUARES[self.axis], self.above, self.above)
        with np.errstate(divide="ignore", invalid="ignore"):
            # The smallest value alone makes a variance of shift² / n: the difference retains its digits.
            variance = np.expand_dims(squares, self.axis) / self.counts - self.shift**2
        deviation: Samples = np.sqrt(np.maximum(variance, 0.0))
        return deviation

    @property
    def deviation(self) -> Samples:
        """Population standard deviation, NaN if a line has only holes."""
        return self.scaled_deviation * self.scale


def centre_lines(values: Samples, *, axis: int) -> CentredLines:
    """Compute the average of each line.

    :param values: finite or NaN, shape (rows, points).
    :param axis: 0 for one average per point, 1 for one average per row.
    """
    smallest = np.fmin.reduce(values, axis=axis, keepdims=True, initial=np.nan)
    largest = np.fmax.reduce(values, axis=axis, keepdims=True, initial=np.nan)
    scale = _scale(np.fmax(np.abs(smallest), np.abs(largest)))
    if (scale != 1).any():
        values, smallest = values / scale, smallest / scale
    above = values - smallest
    np.fmax(above, 0.0, out=above)
    counts = np.count_nonzero(~np.isnan(values), axis=axis, keepdims=True)
    with np.errstate(invalid="ignore"):
        shift = above.sum(axis=axis, keepdims=True) / counts
    return CentredLines(values, above, smallest, shift, scale, counts, axis)


def _scale(magnitude: Samples) -> Samples:
    """Return a power of two near a magnitude that is huge, else 1."""
    huge = magnitude > _HUGE
    return np.where(huge, np.ldexp(1.0, np.frexp(np.where(huge, magnitude, 1.0))[1] - 1), 1.0)
