"""The cheapest course of levels under a trace whose noise is known, outliers left aside.

A sample costs half the square of its distance from the level, in deviations, but never more than an
outlier does; a new level costs a penalty. The search goes from run to run and keeps, for each of
a row of levels, the fewest bits of all courses that end on it: groups and outliers are found together,
and a crowd of outliers never looks like a group that was settled on too early.

Of numpy it takes only what can be compiled too.

Derivation: docs/method/partition-formulas.rst, section One deviation for all groups.
"""

from __future__ import annotations

import math

import numpy as np

from perftrend.analysis.description import Floats
from perftrend.analysis.mdl.runs import Indices

_PER_DEVIATION = 8
"""Levels that are tried within one deviation: a group of 40 runs takes at most 0.1 bits more so."""

BITS_PER_SQUARE = 1 / (2 * math.log(2))


def levels_near(samples: Floats, deviation: float) -> Floats:
    """Return the levels to try, rising: all within a deviation of a sample, and maybe others between.

    :param samples: shape (n,).
    :param deviation: in their unit.
    """
    reach = np.arange(-_PER_DEVIATION, _PER_DEVIATION + 1.0)
    cells = np.round(samples * (_PER_DEVIATION / deviation))
    first, last = cells.min() + reach[0], cells.max() + reach[-1]
    if last - first < cells.size * reach.size:
        found = np.arange(first, last + 1)
    else:
        # One sample far away does not fill the space between.
        found = np.unique(cells[:, np.newaxis] + reach)
    levels: Floats = found * (deviation / _PER_DEVIATION)
    return levels


def cheapest_course(
    samples: Floats, levels: Floats, deviation: float, clip: float, penalty: float
) -> Indices:
    """Return the level of each run, as an index into ``levels``; shape (n,).

    Bits are counted above those of a course of outliers alone. So a run only changes those of the levels
    near it, and these never rise: it is early enough to look when a level is touched whether a
    course that moves to it now is cheaper than all that came to it before.

    :param samples: shape (n,), n from 1 on.
    :param levels: what may be told, rising.
    :param deviation: of the noise, in the unit of the samples.
    :param clip: the bits that a sample costs at most; the last one is never an outlier.
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
