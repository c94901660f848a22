"""The compiled search: the arrays that its kernel works on."""

from __future__ import annotations

import numpy as np

from perftrend.analysis.description import Floats
from perftrend.analysis.mdl import kernel
from perftrend.analysis.mdl.cost_terms import Terms

_SHORTEST_BLOCK, _LONGEST_BLOCK = 8, 64
_PREDECESSORS = 4
"""The usual maximum per start; the array is enlarged if more are needed."""


class CompiledSearch:
    """A search for the partition of the runs so far with the fewest bits; runs can be added.

    :param terms: the formula, for all runs that will be added.
    :param capacity: number of runs to allocate memory for; more can be added.
    """

    def __init__(self, terms: Terms, capacity: int) -> None:
        self._terms = terms
        self._count = 0
        self._live = 0
        self._lots = np.empty((3, capacity))
        self._chains = np.empty((8, capacity))
        self._least = np.empty(capacity)
        self._reach = np.empty(capacity + 1, np.int64)
        self._before = np.empty((3, _PREDECESSORS * capacity))

    def extend(self, lots: Floats) -> None:
        """Add runs: sizes, averages and sums of squared deviations, shape (3, m)."""
        stop = self._count + lots.shape[1]
        if stop > self._least.size:
            self._make_room(2 * stop)
        self._lots[:, self._count : stop] = lots
        self._live, self._before = kernel.extend(
            self._lots,
            self._count,
            self._live,
            stop,
            *self._terms,
            self._chains,
            self._least,
            self._reach,
            self._before,
            min(_LONGEST_BLOCK, max(_SHORTEST_BLOCK, int(1.2 * stop**0.5))),
        )
        self._count = stop

    def bounds(self) -> list[int]:
        """Return where the groups of the best partition begin, and where the last one ends."""
        found: list[int] = kernel.bounds(
            self._lots, self._count, self._chains, self._live, self._reach, self._before
        ).tolist()
        return found

    def _make_room(self, capacity: int) -> None:
        used = self._count
        for name, columns in (("_lots", used), ("_chains", self._live)):
            old = getattr(self, name)
            new = np.empty((old.shape[0], capacity))
            new[:, :columns] = old[:, :columns]
            setattr(self, name, new)
        self._least = np.concatenate([self._least[:used], np.empty(capacity - used)])
        self._reach = np.concatenate([self._reach[: used + 1], np.empty(capacity - used, np.int64)])
