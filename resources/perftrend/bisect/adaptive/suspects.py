"""Which commits can be told apart by what was measured, and which could be measured to tell more.

Two commits of the range that are contained in the same measured commits explain every measurement
equally well: whether the one or the other changed the performance cannot be told. The range falls
apart into such classes. In a history without merges a class is the gap between two measured commits,
the later one included. A class is *atomic* when no commit that can be built would split it.

A class that holds a part of the mainline is split there, so that merges are first looked at as a whole;
when nothing but the merge itself is left of the mainline, its branches follow. A merge whose branches are
clean is itself what is left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from perftrend.analysis.comparison.observations import Floats
from perftrend.bisect.history import History, members

_QUANTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True, slots=True, eq=False)
class Suspects:
    """The range in j classes, by d distinct measured commits."""

    history: History
    measured: tuple[str, ...]
    """Distinct, d of them."""
    classes: tuple[int, ...]
    """Sets of commits, j of them, ordered by their oldest commit."""
    after: Floats
    """1 where the measured commit contains the class, else 0, shape (j, d)."""
    broken: int
    """The set of commits that do not build."""

    @classmethod
    def of(cls, history: History, measured: Sequence[str], broken: Collection[str]) -> Suspects:
        """Take the range apart."""
        distinct = tuple(dict.fromkeys(measured))
        contained = [history.contained(commit) for commit in distinct]
        classes = [(1 << len(history.commits)) - 1]
        for inside in contained:
            halves = [half for each in classes for half in (each & inside, each & ~inside)]
            classes = [half for half in halves if half]
        classes.sort(key=lambda each: each & -each)
        after = np.array([[bool(each & inside) for inside in contained] for each in classes], np.float64)
        unbuilt = sum(1 << history.index(commit) for commit in broken if commit != history.old)
        return cls(history, distinct, tuple(classes), after, unbuilt)

    @property
    def shares(self) -> Floats:
        """The share of the range's commits that each class holds, shape (j,)."""
        return np.array([each.bit_count() for each in self.classes]) / len(self.history.commits)

    def inside(self, commit: str) -> Floats:
        """Return the share of each class that a commit contains, shape (j,)."""
        contained = self.history.contained(commit)
        return np.array([(each & contained).bit_count() / each.bit_count() for each in self.classes])

    def splitting(self, chosen: int) -> tuple[int, ...]:
        """Return the commits to split a class by: on its mainline, else in branches; none if it is atomic.

        :param chosen: one of the classes.
        """
        for level in self._levels(chosen):
            found = tuple(index for index in level if self._splits(index, chosen))
            if found:
                return found
        # A commit outside may contain one of two that do not build and not the other.
        return tuple(index for index in range(len(self.history.commits)) if self._splits(index, chosen))

    def candidates(self, chosen: int) -> tuple[str, ...]:
        """Return a few commits that split a class near its quarters.

        :param chosen: one of the classes.
        """
        found = self.splitting(chosen)
        size = chosen.bit_count()
        weights = [(self.history.ancestors[index] & chosen).bit_count() / size for index in found]
        best = {
            min(range(len(found)), key=lambda place: (abs(weights[place] - share), place))
            for share in _QUANTILES
            if found
        }
        return tuple(self.history.commits[found[place]] for place in sorted(best))

    def _splits(self, index: int, chosen: int) -> bool:
        inside = self.history.ancestors[index] & chosen
        return bool(inside) and inside != chosen and not self.broken >> index & 1

    def _levels(self, chosen: int) -> Iterator[list[int]]:
        """Go through the mainlines of the class's newest commits, then those of their branches, and so on."""
        left = chosen
        heads = self._heads(chosen)
        while heads:
            level: list[int] = []
            others: list[int] = []
            for head in heads:
                line = list(self._mainline(head, left))
                left &= ~sum(1 << index for index in line)
                level += line
                others += [parent for index in line for parent in self.history.parents[index][1:]]
            yield sorted(level)
            heads = [other for other in others if left >> other & 1]
        yield list(members(left))

    def _heads(self, chosen: int) -> list[int]:
        covered = 0
        heads = []
        for index in reversed(list(members(chosen))):
            if not covered >> index & 1:
                heads.append(index)
                covered |= self.history.ancestors[index]
        return heads

    def _mainline(self, head: int, left: int) -> Iterator[int]:
        index: int | None = head
        while index is not None and left >> index & 1:
            yield index
            parents = self.history.parents[index]
            index = parents[0] if parents else None
