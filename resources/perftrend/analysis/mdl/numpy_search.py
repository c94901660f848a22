"""The search for the shortest description, in numpy.

For each end the states of all live starts are computed at once. The rules for dropping states and starts,
with their proofs, are in docs/method/partition-formulas.rst.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from perftrend.analysis.description import Floats
from perftrend.analysis.mdl.cost_terms import Terms

_START, _LEAST, _SIZE, _MEAN, _SQUARE = range(5)
"""Rows of the chains, the live starts: where each starts and what its best predecessor costs; size,
average and squares of the group from it to the current run."""

_ROOM = 256


class _Predecessors(NamedTuple):
    """The groups that end where a group starts, and that may precede it; shape (m,) each."""

    weights: Floats
    """2^(least cost - cost)."""
    means: Floats
    starts: Floats


_NONE = _Predecessors(np.zeros(1), np.zeros(1), np.zeros(1))
"""Before the first group; the weight of 0 excludes it from the search for the nearest."""


class PlainSearch:
    """A search for the partition of the runs so far with the fewest bits; runs can be added.

    :param terms: the formula, for all runs that will be added.
    """

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._lots = np.empty((3, 0))
        self._before: list[_Predecessors] = []
        self._chains = np.empty((5, _ROOM))
        self._live = 0
        self._bits = np.empty(0)
        # The predecessors of all live starts, concatenated: weights, averages, and the index of their start.
        self._weights = np.empty(0)
        self._centres = np.empty(0)
        self._owners = np.empty(0, np.intp)
        self._firsts = np.empty(0, np.intp)

    def __copy__(self) -> PlainSearch:
        """Return a search that continues from here, without an effect on this one."""
        other = PlainSearch(self._terms)
        other.__dict__.update(self.__dict__)
        # All other arrays are replaced, and never written to.
        other._before, other._chains = self._before.copy(), self._chains.copy()
        return other

    def extend(self, lots: Floats) -> None:
        """Add runs: sizes, averages and sums of squared deviations, shape (3, m)."""
        self._lots = np.concatenate([self._lots, lots], axis=1)
        for size, mean, square in lots.T.tolist():
            self._start()
            self._lengthen(size, mean, square)

    def bounds(self) -> list[int]:
        """Return where the groups of the best partition begin, and where the last one ends."""
        found = [self._lots.shape[1]]
        start = int(self._chains[_START, np.argmin(self._bits)])
        while start:
            sizes, means, _ = self._lots[:, start : found[0]]
            mean = means[0] + np.average(means - means[0], weights=sizes)
            found.insert(0, start)
            before = self._before[start]
            start = int(before.starts[np.argmax((np.abs(mean - before.means) + 1) * before.weights)])
        return [0, *found]

    def _start(self) -> None:
        """Start a group here, after those that end here."""
        if not self._before:
            before, least = _NONE, self._terms.constants.first
        else:
            before, least = self._predecessors()
        if self._live == self._chains.shape[1]:
            self._chains = np.concatenate([self._chains, np.empty_like(self._chains)], axis=1)
        self._chains[:, self._live] = len(self._before), least, 0.0, 0.0, 0.0
        self._firsts = np.append(self._firsts, self._weights.size)
        self._weights = np.concatenate([self._weights, before.weights])
        self._centres = np.concatenate([self._centres, before.means])
        self._owners = np.concatenate([self._owners, np.full(before.weights.size, self._live)])
        self._before.append(before)
        self._live += 1

    def _predecessors(self) -> tuple[_Predecessors, float]:
        """Return the states that no other state dominates, and the least cost."""
        constants = self._terms.constants
        means = self._chains[_MEAN, : self._live]
        best = int(np.argmin(self._bits))
        distances = np.abs(means - means[best])
        # At most the logarithm of the range can compensate for bits: most states need no logarithm.
        near = np.flatnonzero(
            self._bits - self._bits[best] <= constants.slope * distances + np.log2(distances + 1)
        )
        means, bits = means[near], self._bits[near]
        if near.size == 1:
            norm = float((constants.square * means[0] + constants.linear) * means[0] + constants.constant)
            starts = self._chains[_START, near]
            return _Predecessors(np.ones(1), means, starts), float(bits[0] + np.log2(norm))
        costs = bits + np.log2((constants.square * means + constants.linear) * means + constants.constant)
        order = np.argsort(costs, kind="stable")
        means, costs = means[order], costs[order]
        least = float(costs[0])
        weights = np.exp2(least - costs)
        reached = weights[:, np.newaxis] * (np.abs(means[:, np.newaxis] - means) + 1)
        # Cheaper states come before dearer ones: only entries above the diagonal count.
        dominated = np.triu(weights[:, np.newaxis] >= reached.T, 1).any(axis=0)
        useful = np.flatnonzero(~dominated)
        starts = self._chains[_START, near[order[useful]]]
        return _Predecessors(weights[useful], means[useful], starts), least

    def _lengthen(self, size: float, mean: float, square: float) -> None:
        """Extend every chain's group by a run, count its bits, and drop the starts that are dead."""
        terms, constants = self._terms, self._terms.constants
        _, least, sizes, means, squares = self._chains[:, : self._live]
        distances = mean - means
        totals = sizes + size
        steps = distances * size / totals
        distances *= steps
        distances *= sizes
        squares += distances
        squares += square
        means += steps
        sizes[:] = totals
        near = np.maximum.reduceat(
            (np.abs(means[self._owners] - self._centres) + 1) * self._weights, self._firsts
        )
        deviations = np.sqrt(squares / totals)
        index = totals.astype(np.intp)
        wide = np.log2(deviations + 1)
        base = least + terms.sizes[index] - np.log2(np.maximum(near, 1.0))
        base += (totals - 2 + constants.tail) * wide
        if constants.tail:
            self._bits = base + np.log2(deviations + 2)
            base += wide
        else:
            self._bits = base
        base = base - terms.excess[index]
        self._bury(base, means)

    def _bury(self, base: Floats, means: Floats) -> None:
        """Drop the starts that no later end can need."""
        constants = self._terms.constants
        best = int(np.argmin(self._bits))
        centre = float(means[best])
        far = max(constants.high - centre, centre - constants.low)
        norm = (constants.square * centre + constants.linear) * centre + constants.constant
        fixed = float(self._bits[best]) + float(np.log2(norm)) + constants.span + constants.tail
        fixed += constants.deviation
        behind = base - fixed
        if behind.max() <= max(0.0, 2 * np.log2(far / 2 + 1) - np.log2(far + 1)):
            return
        away = np.abs(means - centre)
        detour = np.maximum((away / 2 + 1) ** 2, ((away + far) / 2 + 1) ** 2 / (far + 1))
        alive = behind <= np.log2(detour)
        alive[best] = True
        if alive.all():
            return
        left = int(np.count_nonzero(alive))
        retained = alive[self._owners]
        self._weights, self._centres = self._weights[retained], self._centres[retained]
        self._owners = (np.cumsum(alive) - 1)[self._owners[retained]]
        self._firsts = np.flatnonzero(np.diff(self._owners, prepend=-1))
        self._chains[:, :left] = self._chains[:, : self._live][:, alive]
        self._bits = self._bits[alive]
        self._live = left
