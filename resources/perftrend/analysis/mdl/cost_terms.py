r"""The description length, regrouped for a search: the terms that do not change within one series.

With everything in units (see :mod:`perftrend.analysis.description`), a group of n samples with
deviation s and average μ costs, after a predecessor with average p whose partition costs V,

    D(n) + (n - 2 + t) log2(s+1) + log2(t s + 1 + t) + V + G(p) - log2(\|μ-p\|+1)

where t is 1 in the formula jumpavg-0.4 and 0 in jumpavg-0.1, G(p) is the logarithm of a
polynomial, and D is a table. A single sample needs no special case: s = 0.

The constants in the bounds of the pruning rules are here too; their proofs are in
docs/method/partition-formulas.rst.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from perftrend.analysis.description import NEWER, Floats, Formula, size_bits

GROWTH = 0.5 * math.log2(2 * math.pi * math.e)
"""Bits: the least that one more sample adds to D(n)."""


class Constants(NamedTuple):
    """Numbers that a formula, a maximum and a range of samples determine; all in units or bits."""

    tail: float
    """t: 1 if the deviation's code grows with it (jumpavg-0.4), else 0."""
    first: float
    """Bits of the first group's average."""
    square: float
    linear: float
    constant: float
    """G(p) = log2(square p² + linear p + constant)."""
    slope: float
    """The steepest slope of G, in bits per unit."""
    span: float
    """The largest difference of G between two averages of the series."""
    low: float
    high: float
    """No sample, now or later, is outside."""
    deviation: float
    """Bits of the deviation that do not depend on it, without their sign."""


class Terms(NamedTuple):
    """A formula for one series."""

    sizes: Floats
    """D(n) at index n."""
    excess: Floats
    """D(n) without the part that depends on the maximum, minus ``GROWTH`` n; at index n."""
    constants: Constants


def terms_of(formula: Formula, *, maximum: float, low: float, samples: int) -> Terms:
    """Regroup a formula.

    :param formula: the one to use.
    :param maximum: the largest sample, in units; positive.
    :param low: a lower bound of the samples.
    :param samples: the largest number of samples in a group.
    """
    table = size_bits(samples)
    excess = table - GROWTH * np.arange(table.size)
    if formula.name == NEWER:
        deviation = math.log2(1 - 1 / (maximum + 2))
        sizes = table + deviation
        # A single sample has no deviation: log2(s+2) provides its only bit.
        sizes[1] = 0.0
        constants = _newer_constants(maximum, low)
    else:
        sizes = table + math.log2(maximum + 1)
        sizes[1] = 1.0
        constants = _older_constants(maximum, low)
    return Terms(sizes, excess, constants)


def _newer_constants(maximum: float, low: float) -> Constants:
    least = maximum**2 / 4 + maximum
    """The polynomial of G at its vertex, p = M/2."""

    def norm(mean: float) -> float:
        return math.log2((mean - maximum / 2) ** 2 + least)

    nearest = min(max(maximum / 2, low), maximum)
    return Constants(
        tail=1.0,
        first=math.log2(maximum + 1),
        square=1.0,
        linear=-maximum,
        constant=maximum + maximum**2 / 2,
        slope=math.log2(math.e) / math.sqrt(least),
        span=max(norm(low), norm(maximum)) - norm(nearest),
        low=low,
        high=maximum,
        deviation=-math.log2(1 - 1 / (maximum + 2)),
    )


def _older_constants(maximum: float, low: float) -> Constants:
    return Constants(
        tail=0.0,
        first=math.log2(maximum + 1),
        square=0.0,
        linear=0.0,
        constant=maximum * (maximum + 1),
        slope=0.0,
        span=0.0,
        low=low,
        high=maximum,
        deviation=math.log2(maximum + 1),
    )
