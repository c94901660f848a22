"""The cheapest course of levels for a trace with known noise, excluding outliers.

A sample costs half the square of its distance from the level, in deviations, but at most as much as an
outlier; a new level costs a penalty. The search goes from run to run and stores, for each level of a grid,
the fewest bits of all courses that end on it. Groups and outliers are found together, so that a cluster of
outliers is not accepted as a group too early.

Uses only those functions of numpy that numba can compile.

Derivation: docs/method/partition-formulas.rst, section One deviation for all groups.
"""

from __future__ import annotations

import math

import numpy as np

from perftrend.analysis.description import Floats
from perftrend.analysis.mdl.runs import Indices

_PER_DEVIATION = 8
"""Levels per deviation: a group of 40 runs takes at most 0.1 bits more with this grid."""

BITS_PER_SQUARE = 1 / (2 * math.log(2))


def levels_near(samples: Floats, deviation: float) -> Floats:
    """Return the levels to try, ascending: all within a deviation of a sample, and possibly others between.

    :param samples: shape (n,).
    :param deviation: in the unit of the samples.
    """
    reach = np.arange(-_PER_DEVIATION, _PER_DEVIATION + 1.0)
    cells = np.round(samples * (_PER_DEVIATION / deviation))
    first, last = cells.min() + reach[0], cells.max() + reach[-1]
    if last - first < cells.size * reach.size:
        found = np.arange(first, last + 1)
    else:
        # Skip the levels between a distant sample and the others.
        found = np.unique(cells[:, np.newaxis] + reach)
    levels: Floats = found * (deviation / _PER_DEVIATION)
    return levels


def cheapest_course(
    samples: Floats, levels: Floats, deviation: float, clip: float, penalty: float
) -> Indices:
    """Return the level of each run, as an index into ``levels``; shape (n,).

    Bits are counted relative to a course of outliers only. A run therefore changes only the bits of the
    levels near it, and these bits never rise. It is sufficient to check, for these levels, whether a course
    that moves to one of them now is cheaper than all courses that reached it before.

    :param samples: shape (n,), n at least 1.
    :param levels: the candidates, ascending.
    :param deviation: of the noise, in the unit of the samples.
    :param clip: the maximum bits of a sample; the last one is never an outlier.
    :param penalty: the bits of a new level.
    """
    count = samples.size
    moved = np.zeros((count, levels.size), dtype=np.bool_)
    origins = np.zeros(count, dtype=np.int64)
    bits = np.zeros(levels.size)
    best = 0
    reach = deviation * math.sqrt(clip / BITS_PER_SQUARE)
    saved = clip if clip < math.inf else 0.0
    for run in range(count):
        sample = samples[run]
        low, high = 0, levels.size
        if run < count - 1:
            low, high = np.searchsorted(levels, sample - reach), np.searchsorted(levels, sample + reach)
        near = bits[low:high]
        if run:
            origins[run] = best
            fewest = bits[best] + penalty
            moved[run, low:high] = near > fewest
            near = np.minimum(near, fewest)
        distances = (sample - levels[low:high]) / deviation
        bits[low:high] = near + (distances * distances * BITS_PER_SQUARE - saved)
        if low < high:
            found = low + int(np.argmin(bits[low:high]))
            if bits[found] < bits[best] or high - low == levels.size:
                best = found
    course = np.empty(count, dtype=np.int64)
    course[-1] = best
    for run in range(count - 1, 0, -1):
        course[run - 1] = origins[run] if moved[run, course[run]] else course[run]
    return course
