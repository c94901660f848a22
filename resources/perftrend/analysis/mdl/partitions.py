"""Partitions of a trace, and the bits that they take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perftrend.analysis.description import Floats, Formula
from perftrend.analysis.mdl.runs import FiniteRuns, moments
from perftrend.model import Group, Samples

_TINY, _HUGE = 1e-100, 1e100


@dataclass(frozen=True, slots=True)
class Partition:
    """Groups in the order of time, and the length of their description.

    A run without a finite sample belongs to no group. A group starts at its first run with a
    finite sample and stops one past its last one: positions inside it may be empty, and so may
    positions between two groups.
    """

    groups: tuple[Group, ...]
    """Averages and deviations in the unit of the samples."""
    bits: float
    """The sum of the groups' bits, and of the outliers'; 0 without groups."""
    outliers: tuple[int, ...] = ()
    """Positions of the runs excluded from the groups; empty unless outliers were requested."""
    suspected: tuple[int, ...] = ()
    """Positions at the end that are far off, with too few runs yet to distinguish a change from outliers."""

    def trends(self, size: int) -> Samples:
        """Return the average of the group at each position.

        :param size: the number of positions.
        :returns: shape (size,), NaN for a position between groups or outside them.
        """
        trends = np.full(size, np.nan)
        for group in self.groups:
            trends[group.start : group.stop] = group.mean
        return trends

    def by_averages(self, averages: Samples) -> Partition:
        """Return the same groups, with the averages and deviations of their runs instead of their samples.

        :param averages: one for each run, shape (n,), NaN for a run without one.
        """

        def described(group: Group) -> Group:
            values = averages[group.start : group.stop]
            mean, stdev = describe_runs(values[np.isfinite(values)])
            return replace(group, mean=mean, stdev=stdev)

        return replace(self, groups=tuple(map(described, self.groups)))


def describe_runs(present: Samples) -> tuple[float, float]:
    """Return the average and the standard deviation of runs; that of equal runs is exactly 0.

    :param present: run averages, shape (n,), at least one, all finite.
    """
    means, squares = moments(present, np.array([0, present.size]))
    return float(means[0]), math.sqrt(squares[0] / present.size)


def build_partition(
    runs: FiniteRuns, scaled: Floats, bounds: Sequence[int], maximum: float, formula: Formula
) -> Partition:
    """Return the partition with given bounds, and count its bits.

    :param scaled: the samples of ``runs`` in units.
    :param bounds: where the groups begin among the runs, and where the last one ends.
    """
    ends = np.array(bounds)
    firsts = runs.firsts[ends]
    sizes = np.diff(firsts)
    largest = max(float(runs.samples.max()), -float(runs.samples.min()))
    # Squares of huge and tiny numbers overflow or underflow: factor out a power of two, which is exact.
    exponent = 0 if _TINY < largest < _HUGE else math.frexp(largest)[1]
    samples = np.ldexp(runs.samples, -exponent) if exponent else runs.samples
    means, squares = moments(np.stack([scaled, samples]), firsts)
    stdevs = np.sqrt(squares / sizes)
    bits = formula.alone_bits(sizes, stdevs[0], maximum)
    bits[0] += formula.first_bits(maximum)
    if sizes.size > 1:
        bits[1:] += formula.later_bits(means[0, 1:], means[0, :-1], maximum)
    averages, deviations = means[1], stdevs[1]
    if exponent:
        averages, deviations = np.ldexp(averages, exponent), np.ldexp(deviations, exponent)
    rows = zip(
        runs.positions[ends[:-1]].tolist(),
        (runs.positions[ends[1:] - 1] + 1).tolist(),
        averages.tolist(),
        deviations.tolist(),
        bits.tolist(),
        strict=True,
    )
    return Partition(tuple(Group(*row) for row in rows), math.fsum(bits))
