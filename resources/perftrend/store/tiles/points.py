"""Points: the summary of the columns that a coarse point covers, so that plots show the envelope.

A point of scale 0 is the value of a trace in a column: the value of its run, or the average of the values
of its runs. A point of a coarser scale has the average, the least, the greatest and the number of the
values that it covers. All are float64; NaN where there is no value at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perftrend.model import Samples
from perftrend.store.tiles.scales import FACTOR

PLANES = 4
"""Average, least, greatest, number."""


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Points of n traces, each array of the shape (n, points)."""

    mean: Samples
    least: Samples
    greatest: Samples
    count: NDArray[np.int64]
    """Columns with a value; 0 where the others are NaN."""

    @classmethod
    def of(cls, planes: Samples) -> Points:
        """Return the points of an array of :func:`fold`.

        :param planes: shape (points, 4, n).
        """
        mean, least, greatest, number = (np.ascontiguousarray(planes[:, plane].T) for plane in range(PLANES))
        return cls(mean, least, greatest, np.nan_to_num(number).astype(np.int64))


def coarsen(values: Samples, scale: int) -> Points:
    """Return the points of a scale over values that no tile has, such as those of several testbeds.

    :param values: shape (n, columns), NaN for holes.
    """
    planes = planes_of(values.T)
    for _ in range(scale):
        planes = fold(planes)
    return Points.of(planes)


def planes_of(values: Samples) -> Samples:
    """Return values of scale 0 in the form of coarser points.

    :param values: shape (columns, n), NaN for holes.
    :returns: shape (columns, 4, n).
    """
    number = np.where(np.isnan(values), np.nan, 1.0)
    return np.stack((values, values, values, number), axis=1)


def fold(planes: Samples) -> Samples:
    """Return the points of the next scale.

    :param planes: shape (points, 4, n), beginning with the first point of a coarse one; the last may
        have fewer than four.
    :returns: shape (⌈points / 4⌉, 4, n).
    """
    points, _, traces = planes.shape
    coarse = -(-points // FACTOR)
    if points < coarse * FACTOR:
        filling = np.full((coarse * FACTOR - points, PLANES, traces), np.nan)
        planes = np.concatenate((planes, filling))
    four = planes.reshape(coarse, FACTOR, PLANES, traces)
    mean, number = four[:, :, 0], np.nan_to_num(four[:, :, 3])
    least = np.fmin.reduce(four[:, :, 1], axis=1)
    greatest = np.fmax.reduce(four[:, :, 2], axis=1)
    total = number.sum(axis=1)
    empty = total == 0
    total[empty] = np.nan
    # Relative to the least, so that equal values have exactly their average.
    with np.errstate(over="ignore", invalid="ignore"):
        above = np.nan_to_num(mean - least[:, np.newaxis], nan=0.0, posinf=np.finfo(float).max)
        average = least + (above * (number / total[:, np.newaxis])).sum(axis=1)
    average = np.clip(average, least, greatest)
    return np.stack((average, least, greatest, total), axis=1)
