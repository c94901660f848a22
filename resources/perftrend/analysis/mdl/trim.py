"""The choice of the samples that are cheaper as outliers than in their group.

Plain Python, so that numba can compile it too.
"""

# ruff: noqa: PLR0917 - compiled functions take their arguments by position.

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.description import Floats


def trim(
    samples: Floats,
    firsts: NDArray[np.int64],
    sizes: Floats,
    tail: float,
    price: float,
    dropped: NDArray[np.bool_],
) -> None:
    """Mark in each group the samples without which it costs the fewest bits.

    The remaining samples are neighbours in the order of size. The search starts from the densest such
    range of the minimum length, and adds the nearest sample, one at a time, until all are included. The
    cheapest of these choices is selected; of equal ones, the largest.

    :param samples: in units, group after group, each in the order of size.
    :param firsts: where each group begins, and where the last one ends.
    :param sizes: D(n) at index n.
    :param tail: as in the formula, 1 or 0.
    :param price: the bits of an excluded sample.
    :param dropped: as long as ``samples``; set to True for excluded samples, else to False.
    """
    for g in range(len(firsts) - 1):
        first, last = firsts[g], firsts[g + 1]
        size = last - first
        # At most a third of few samples are outliers, at most a tenth of many.
        minimum = size - min(size // 3, 10 + size // 10)
        low = first
        for i in range(first, last - minimum + 1):
            if samples[i + minimum - 1] - samples[i] < samples[low + minimum - 1] - samples[low]:
                low = i
        high = low
        mean = square = 0.0
        best = math.inf
        best_low, best_high = first, last
        while high - low < size:
            # Within the densest range the order does not matter: it is filled from its lower end.
            upwards = high - low < minimum
            if not upwards:
                upwards = low == first or (high < last and samples[high] - mean < mean - samples[low - 1])
            if upwards:
                sample = samples[high]
                high += 1
            else:
                low -= 1
                sample = samples[low]
            n = high - low
            distance = sample - mean
            mean += distance / n
            square += distance * (sample - mean)
            if n >= minimum:
                s = math.sqrt(square / n)
                bits = sizes[n] + (n - 2 + tail) * math.log2(s + 1) + math.log2(tail * s + 1 + tail)
                bits += (size - n) * price
                if bits <= best:
                    best, best_low, best_high = bits, low, high
        for i in range(first, last):
            dropped[i] = i < best_low or i >= best_high
