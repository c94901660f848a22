r"""Description length: the number of bits that describe a group of samples.

Describing a group costs bits for its size, its average, its standard deviation and its samples. A
later group's average is encoded relative to the average of the group before, in a way that makes
averages close together expensive. With all values in units, M the largest sample, k the size, μ the
average, s the population standard deviation and p the average of the group before, the formula
``jumpavg-0.4`` is the sum of

* log2(k (k+1));
* for the first group log2(M+1), for a later one log2((p² - (p-1) M + M²/2) / (\|μ-p\|+1));
* if k > 1: log2((s+1) (s+2)) + log2(1 - 1/(M+2));
* if k > 1: log2(2 π^((k-1)/2) / Γ((k-1)/2) (s+1)^(k-2) k^((k-2)/2)).

``jumpavg-0.1`` has log2(M (M+1) / (\|μ-p\|+1)) as a later group's term and log2(M+1) instead
of the third line. Its unit is 1; the newer formula's is the maximum over 2¹³ - 1.

Source: "Trend Analysis", section Minimum Description Length, and the library jumpavg, versions
0.1 and 0.4, that computes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from perftrend import errors

Floats = NDArray[np.float64]

NEWER, OLDER = "jumpavg-0.4", "jumpavg-0.1"

MAXIMUM_IN_UNITS = 2.0**13 - 1
"""The largest sample in units if no unit is given: twelve significant bits."""


@dataclass(frozen=True, slots=True)
class Formula:
    """A way to count the bits of a group. All values are in units."""

    name: str
    default_unit: Callable[[float], float]
    """The default unit, calculated from the largest sample."""
    deviation_bits: Callable[[Floats, float], Floats]
    """(s, M): bits of the standard deviation of a group of two samples or more."""
    norm_bits: Callable[[Floats, float], Floats]
    """(p, M): bits of a later group's average, before log2(\\|μ-p\\|+1) is subtracted."""

    def alone_bits(self, size: NDArray[np.int64], stdev: Floats, maximum: float) -> Floats:
        """Count the bits of groups without those of their averages.

        :param size: numbers of samples, at least 1, any shape.
        :param stdev: population standard deviations, the same shape.
        :param maximum: largest sample of the whole series.
        :returns: bits, the same shape.
        """
        bits = size_bits(int(size.max()))[size]
        several = self.deviation_bits(stdev, maximum) + (size - 2) * np.log2(stdev + 1)
        return np.where(size > 1, bits + several, bits)

    def first_bits(self, maximum: float) -> float:
        """Count the bits of the first group's average."""
        return math.log2(maximum + 1)

    def later_bits(self, mean: Floats, previous: Floats, maximum: float) -> Floats:
        """Count the bits of a later group's average; arguments are broadcast."""
        bits: Floats = self.norm_bits(previous, maximum) - np.log2(np.abs(mean - previous) + 1)
        return bits


def _newer_deviation_bits(stdev: Floats, maximum: float) -> Floats:
    return np.log2((stdev + 1) * (stdev + 2)) + math.log2(1 - 1 / (maximum + 2))


def _newer_norm_bits(previous: Floats, maximum: float) -> Floats:
    return np.log2(previous**2 - (previous - 1) * maximum + maximum**2 / 2)


def _older_deviation_bits(stdev: Floats, maximum: float) -> Floats:
    return np.full_like(stdev, math.log2(maximum + 1))


def _older_norm_bits(previous: Floats, maximum: float) -> Floats:
    return np.full_like(previous, math.log2(maximum) + math.log2(maximum + 1))


FORMULAS = {
    formula.name: formula
    for formula in (
        Formula(NEWER, lambda top: top / MAXIMUM_IN_UNITS, _newer_deviation_bits, _newer_norm_bits),
        Formula(OLDER, lambda _: 1.0, _older_deviation_bits, _older_norm_bits),
    )
}


def formula_named(name: str) -> Formula:
    """Return a formula.

    :raises SettingsError: if no formula has that name.
    """
    if name not in FORMULAS:
        hint = errors.nearest(name, FORMULAS)
        raise errors.SettingsError(f"no description length formula is named {name!r}{hint}")
    return FORMULAS[name]


def size_bits(largest: int) -> Floats:
    """Tabulate the bits that depend on a group's size alone; index 0 is not used.

    :param largest: the largest size that the table must contain.
    """
    return _size_bits(max(8, (largest - 1).bit_length()))


@lru_cache(maxsize=64)
def _size_bits(power: int) -> Floats:
    bits = [0.0, 1.0]
    for k in range(2, 2**power + 1):
        sphere = (k - 1) / 2 * math.log(math.pi) - math.lgamma((k - 1) / 2) + (k - 2) / 2 * math.log(k)
        bits.append(math.log2(k * (k + 1)) + 1 + sphere / math.log(2))
    table = np.array(bits)
    table.setflags(write=False)
    return table
