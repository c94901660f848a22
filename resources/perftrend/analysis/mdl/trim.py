"""Which samples of a group are cheaper told apart from it.

Plain Python, so that it can be compiled too.
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

    What stays is a run of neighbours in the order of size. From the densest such run that is
    allowed on, the nearest sample is taken in, one after the other, until all are in; the cheapest
    of these choices wins, of equal ones the largest.

    :param samples: in units, group after group, each in the order of size.
    :param firsts: where each group begins, and where the last one ends.
    :param sizes: D(n) at index n.
    :param tail: as in the formula, 1 or 0.
    :param price: what a sample costs that is told apart.
    :param dropped: as long as ``samples``; set to True for samples told apart, else to False.
    """
    for g in range(len(firsts) - 1):
        first, last = firsts[g], firsts[g + 1]
        size = last - first
        # At most a third of few samples are outliers, at most a tenth of many.
        kept = size - min(size // 3, 10 + size // 10)
        low = first
        for i in range(first, last - kept + 1):
            if samples[i + kept - 1] - samples[i] < samples[low + kept - 1] - samples[low]:
                low = i
        high = low
        mean = square = 0.0
        best = math.inf
        best_low, best_high = first, last
        while high - low < size:
            # Inside the densest run the order does not matter: it fills from its lower end.
            upwards = high - low < kept
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
            if n >= kept:
                s = math.sqrt(square / n)
                bits = sizes[n] + (n - 2 + tail) * math.log2(s + 1) + math.log2(tail * s + 1 + tail)
                bits += (size - n) * price
                if bits <= best:
                    best, best_low, best_high = bits, low, high
        for i in range(first, last):
            dropped[i] = i < best_low or i >= best_high
