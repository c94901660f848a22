"""The classes of commits that the measurements distinguish, and the commits that would split them.

Two commits of the range that are contained in the same measured commits explain every measurement
equally well: the measurements do not show which of them changed the performance. The range is divided
into such classes. In a history without merges a class is the gap between two measured commits,
including the later one. A class is *atomic* if no commit that can be built would split it.

A class that holds a part of the mainline is split there, so that merges are first measured as a whole; if
only the merge itself is left of the mainline, its branches follow. If the branches are clean, the merge
itself remains. Classes outlive many measurements, so results are cached.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from perftrend.analysis.comparison.observations import Floats
from perftrend.bisect.history import CommitHistory, members

_QUANTILES = (0.25, 0.5, 0.75)
_CACHE_SIZE = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Suspects:
    """The range, divided into j classes by d distinct measured commits."""

    history: CommitHistory
    measured: tuple[str, ...]
    """Distinct measured commits, d of them."""
    classes: tuple[int, ...]
    """Sets of commits, j of them, ordered by their oldest commit."""
    after: Floats
    """1 if the measured commit contains the class, else 0, shape (j, d)."""
    broken: int
    """The set of commits that do not build."""

    @classmethod
    def of(cls, history: CommitHistory, measured: Sequence[str], broken: Collection[str]) -> Suspects:
        """Divide the range into classes."""
        distinct = tuple(dict.fromkeys(measured))
        contained = [history.reachable_from(commit) for commit in distinct]
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
        """The fraction of the range's commits in each class, shape (j,)."""
        return np.array([each.bit_count() for each in self.classes]) / len(self.history.commits)

    def inside(self, commit: str) -> Floats:
        """Return the fraction of each class that a commit contains, shape (j,)."""
        if commit in self.measured:
            return self.after[:, self.measured.index(commit)]
        contained = self.history.reachable_from(commit)
        return np.array([(each & contained).bit_count() / each.bit_count() for each in self.classes])

    def split_points(self, chosen: int) -> tuple[int, ...]:
        """Return the commits to split a class by; empty if it is atomic."""
        return split_points(self.history, self.broken, chosen)

    def candidates(self, chosen: int) -> tuple[str, ...]:
        """Return a few commits that split a class near its quarters."""
        return tuple(
            self.history.commits[index] for index in near_quarters(self.history, self.broken, chosen)
        )

    def sides(self, chosen: int, held: Floats) -> tuple[str, str]:
        """Return a measured commit without a class and one with it that differ by little else.

        All that the first one contains is in the second one as well: a commit of another branch may differ by
        changes of its own.

        :param held: the probability of a change in each class, (j,).
        """
        contained = {commit: self.history.reachable_from(commit) for commit in self.measured}
        within = self.classes[chosen]
        without = [commit for commit, inside in contained.items() if not inside & within]
        including = [commit for commit, inside in contained.items() if inside & within]

        def between(parent: str, candidate: str) -> tuple[float, int]:
            changed = contained[candidate] & ~contained[parent]
            others = sum(
                float(each) for part, each in zip(self.classes, held, strict=True) if part & changed & ~within
            )
            return round(others, 9), (contained[candidate] ^ contained[parent]).bit_count()

        return min(
            (
                (parent, candidate)
                for candidate in including
                for parent in without
                if self.history.contains(candidate, parent)
            ),
            key=lambda pair: (*between(*pair), *map(self.history.index, pair)),
        )

    def most_suspected(self, changed: int, held: Floats) -> int:
        """Return the most probable class in a set of commits."""
        return max(self._within(changed), key=lambda at: float(held[at]))

    def alone(self, chosen: int, changed: int, held: Floats) -> float:
        """Return the probability that a change in a set of commits is in this class."""
        return float(held[chosen]) / max(sum(float(held[at]) for at in self._within(changed)), 1e-300)

    def _within(self, changed: int) -> list[int]:
        return [at for at, chosen in enumerate(self.classes) if not chosen & ~changed]


@lru_cache(_CACHE_SIZE)
def split_points(history: CommitHistory, broken: int, chosen: int) -> tuple[int, ...]:
    """Return the commits to split a class by: on its mainline, else in branches; empty if it is atomic.

    :param broken: the set of commits that do not build.
    :param chosen: the class, a set of commits.
    """
    for level in _levels(history, chosen):
        found = tuple(index for index in level if _splits(history, broken, chosen, index))
        if found:
            return found
    # A commit outside of the class may contain one of two commits that do not build but not the other.
    everything = range(len(history.commits))
    return tuple(index for index in everything if _splits(history, broken, chosen, index))


@lru_cache(_CACHE_SIZE)
def near_quarters(history: CommitHistory, broken: int, chosen: int) -> tuple[int, ...]:
    """Return a few of the commits that split a class, near its quarters."""
    found = split_points(history, broken, chosen)
    size = chosen.bit_count()
    weights = [(history.ancestors[index] & chosen).bit_count() / size for index in found]
    best = {
        min(range(len(found)), key=lambda place: (abs(weights[place] - share), place))
        for share in _QUANTILES
        if found
    }
    return tuple(found[place] for place in sorted(best))


def _splits(history: CommitHistory, broken: int, chosen: int, index: int) -> bool:
    inside = history.ancestors[index] & chosen
    return bool(inside) and inside != chosen and not broken >> index & 1


def _levels(history: CommitHistory, chosen: int) -> Iterator[list[int]]:
    """Yield the mainlines of the class's newest commits, then those of their branches, and so on."""
    left = chosen
    heads = _heads(history, chosen)
    while heads:
        level: list[int] = []
        others: list[int] = []
        for head in heads:
            line = list(_mainline(history, head, left))
            left &= ~sum(1 << index for index in line)
            level += line
            others += [parent for index in line for parent in history.parents[index][1:]]
        yield sorted(level)
        heads = [other for other in others if left >> other & 1]
    yield list(members(left))


def _heads(history: CommitHistory, chosen: int) -> list[int]:
    covered = 0
    heads = []
    for index in reversed(list(members(chosen))):
        if not covered >> index & 1:
            heads.append(index)
            covered |= history.ancestors[index]
    return heads


def _mainline(history: CommitHistory, head: int, left: int) -> Iterator[int]:
    index: int | None = head
    while index is not None and left >> index & 1:
        yield index
        parents = history.parents[index]
        index = parents[0] if parents else None
