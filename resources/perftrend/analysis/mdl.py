"""The partition of a trace into groups that takes the fewest bits to tell.

A trace is taken for a concatenation of groups, each drawn from one normal distribution. Of all
partitions into groups the right one is the one with the shortest description (minimum
description length). A group's bits depend on the average of the group before it, so that the
best partition up to a position is not enough to go on from: the search keeps, for every pair
(start, stop), the fewest bits of all partitions that end with the group from start to stop.

Source: "Trend Analysis", sections Partitioning into groups and Minimum Description Length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from perftrend import errors
from perftrend.analysis.description import MAXIMUM_IN_UNITS, Floats, Formula, formula_named
from perftrend.model import Group, Samples

DEFAULT_FORMULA = "jumpavg-0.4"

_LARGEST = 1e100  # In units: squares of it, and sums of them, are still numbers.


@dataclass(frozen=True, slots=True)
class Partition:
    """Groups in the order of time, and the length of their description.

    A sample that is not finite belongs to no group. A group starts at its first finite sample
    and stops one past its last one: positions inside it may be empty, and so may positions
    between two groups.
    """

    groups: tuple[Group, ...]
    """Averages and deviations in the unit of the samples."""
    bits: float
    """The sum of the groups' bits; 0 where there is no group."""

    def trends(self, size: int) -> Samples:
        """Return the average of the group that each position lies in.

        :param size: the number of positions.
        :returns: shape (size,), NaN where a position lies between groups or outside them.
        """
        trends = np.full(size, np.nan)
        for group in self.groups:
            trends[group.start : group.stop] = group.mean
        return trends


def partition(
    samples: ArrayLike, *, formula: str = DEFAULT_FORMULA, unit: float | None = None, outliers: bool = False
) -> Partition:
    """Find the partition with the fewest bits over all partitions.

    The formulas need a positive maximum. Where no sample is positive, the samples are described
    with their signs turned; where all are zero, they are one group.

    :param samples: run averages in the order of time, shape (n,), any unit. What is not finite
        keeps its position and belongs to no group.
    :param formula: ``jumpavg-0.4`` or ``jumpavg-0.1``.
    :param unit: resolution of the samples, in their unit; None for the formula's default.
    :param outliers: whether outliers are told apart from groups; not supported yet.
    :returns: the partition, without groups where no sample is finite. Of several with equally
        few bits it is one with the longest last group.
    :raises SettingsError: if an argument has no meaning.
    """
    if outliers:
        raise errors.SettingsError("partition: outliers=True is not supported yet; leave it out")
    chosen = formula_named(formula)
    values = np.asarray(samples, dtype=np.float64)
    if values.ndim != 1:
        raise errors.SettingsError(
            f"partition: samples have {values.ndim} dimensions; give one value for each run"
        )
    positions = np.flatnonzero(np.isfinite(values))
    if not positions.size:
        return Partition((), 0.0)
    present = values[positions]
    scaled = _in_units(present, chosen, unit)
    bounds = _cheapest(scaled, chosen) if scaled.any() else [0, scaled.size]
    groups = []
    for index, (start, stop) in enumerate(pairwise(bounds)):
        previous = scaled[bounds[index - 1] : start] if index else None
        groups.append(
            Group(
                start=int(positions[start]),
                stop=int(positions[stop - 1]) + 1,
                mean=_mean(present[start:stop]),
                stdev=_stdev(present[start:stop]),
                bits=_bits(scaled[start:stop], previous, float(scaled.max()), chosen),
            )
        )
    return Partition(tuple(groups), math.fsum(group.bits for group in groups))


def _in_units(values: Samples, formula: Formula, unit: float | None) -> Floats:
    """Return the samples in units, their signs turned where none is positive."""
    if unit is not None and not 0 < unit < math.inf:
        raise errors.SettingsError(f"partition: unit is {unit}; give a positive number")
    upright = values if values.max() > 0 else -values
    top = float(upright.max())
    if top == 0:
        return np.zeros_like(values)
    step = formula.default_unit(top) if unit is None else unit
    with np.errstate(over="ignore"):
        # The smallest of all numbers cannot be divided further: then the samples are made larger.
        tiny = step < np.finfo(np.float64).tiny
        scaled: Floats = upright / top * MAXIMUM_IN_UNITS if tiny else upright / step
    if np.abs(scaled).max() > _LARGEST:
        raise errors.SettingsError(
            f"partition: the samples, up to {np.abs(values).max():g}, are too large for the unit "
            f"{step:g}; give a larger unit"
        )
    return scaled


def _mean(samples: Samples) -> float:
    # Relative to the first sample the average of equal samples is exact, and nothing overflows.
    return float(samples[0] + np.mean(samples - samples[0]))


def _stdev(samples: Samples) -> float:
    deviations = samples - _mean(samples)
    largest = np.abs(deviations).max()
    return float(largest * np.sqrt(np.mean((deviations / largest) ** 2))) if largest else 0.0


def _bits(group: Floats, previous: Floats | None, maximum: float, formula: Formula) -> float:
    """Count the bits of one group; everything is in units."""
    alone = formula.alone_bits(np.array([group.size]), np.array([_stdev(group)]), maximum)
    if previous is None:
        return float(alone[0] + formula.first_bits(maximum))
    later = formula.later_bits(np.array([_mean(group)]), np.array([_mean(previous)]), maximum)
    return float(alone[0] + later[0])


class _Predecessors:
    """The groups that end where a group starts, and what it costs to come after the best of them.

    :param bits: fewest bits of the partitions that end with each group, shape (m,).
    :param means: the groups' averages, shape (m,).
    """

    def __init__(self, bits: Floats, means: Floats, maximum: float, formula: Formula) -> None:
        costs = bits + formula.norm_bits(means, maximum)
        best = int(np.argmin(costs))
        # (|μ-b|+1) <= (|μ-a|+1) (|a-b|+1): a group a that costs this much more than the best
        # group b is not a better predecessor for any μ.
        useful = costs < costs[best] + np.log2(np.abs(means - means[best]) + 1)
        useful[best] = True
        self.starts = np.flatnonzero(useful)
        self._least = float(costs[best])
        self._means = means[useful]
        # One logarithm for all candidates instead of one for each.
        self._weights = np.exp2(costs[useful] - self._least)

    def bits(self, mean: Floats) -> Floats:
        """Return the fewest bits before groups of these averages, their averages told; shape (n,)."""
        bits: Floats = self._least + np.log2(self._ratios(mean).min(axis=0))
        return bits

    def best(self, mean: float) -> int:
        """Return the start of the best group before a group of this average."""
        return int(self.starts[np.argmin(self._ratios(np.array([mean]))[:, 0])])

    def _ratios(self, mean: Floats) -> Floats:
        distances = np.abs(mean - self._means[:, np.newaxis])
        ratios: Floats = self._weights[:, np.newaxis] / (distances + 1)
        return ratios


def _cheapest(samples: Floats, formula: Formula) -> list[int]:
    """Return the bounds of the groups of the cheapest partition, 0 and n among them.

    Dynamic programming over (start, stop): n²/2 states, each with the few predecessors that can
    be the best one, so about n² steps, and n³ at worst.

    :param samples: in units, shape (n,), the maximum positive.
    """
    count = samples.size
    maximum = float(samples.max())
    bits = np.full((count, count + 1), np.inf)
    means = np.zeros((count, count + 1))
    before: list[_Predecessors | None] = [None]
    for start in range(count):
        sizes = np.arange(1, count - start + 1)
        # Relative to the group's own first sample, sums of squares lose no more digits than n.
        offsets = samples[start:] - samples[start]
        mean_offsets = np.cumsum(offsets) / sizes
        variances = np.cumsum(offsets**2) / sizes - mean_offsets**2
        mean = samples[start] + mean_offsets
        alone = formula.alone_bits(sizes, np.sqrt(np.maximum(variances, 0.0)), maximum)
        if start:
            found = _Predecessors(bits[:start, start], means[:start, start], maximum, formula)
            before.append(found)
            bits[start, start + 1 :] = alone + found.bits(mean)
        else:
            bits[0, 1:] = alone + formula.first_bits(maximum)
        means[start, start + 1 :] = mean
    bounds = [count]
    start = int(np.argmin(bits[:, count]))
    while (found_before := before[start]) is not None:
        stop = bounds[0]
        bounds.insert(0, start)
        start = found_before.best(float(means[start, stop]))
    return [0, *bounds]
