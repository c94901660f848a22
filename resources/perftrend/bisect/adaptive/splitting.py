"""The commits that split a class, so that measuring one of them distinguishes its halves.

A class that holds a part of the mainline is split there, so that merges are first measured as a whole; if
only the merge itself is left of the mainline, its branches follow. If the branches are clean, the merge
itself remains.

Classes outlive many measurements, so results are cached.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from perftrend.bisect.history import History, members

_QUANTILES = (0.25, 0.5, 0.75)
_KEPT = 4096


@lru_cache(_KEPT)
def splitting(history: History, broken: int, chosen: int) -> tuple[int, ...]:
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


@lru_cache(_KEPT)
def near_quarters(history: History, broken: int, chosen: int) -> tuple[int, ...]:
    """Return a few of the commits that split a class, near its quarters."""
    found = splitting(history, broken, chosen)
    size = chosen.bit_count()
    weights = [(history.ancestors[index] & chosen).bit_count() / size for index in found]
    best = {
        min(range(len(found)), key=lambda place: (abs(weights[place] - share), place))
        for share in _QUANTILES
        if found
    }
    return tuple(found[place] for place in sorted(best))


def _splits(history: History, broken: int, chosen: int, index: int) -> bool:
    inside = history.ancestors[index] & chosen
    return bool(inside) and inside != chosen and not broken >> index & 1


def _levels(history: History, chosen: int) -> Iterator[list[int]]:
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


def _heads(history: History, chosen: int) -> list[int]:
    covered = 0
    heads = []
    for index in reversed(list(members(chosen))):
        if not covered >> index & 1:
            heads.append(index)
            covered |= history.ancestors[index]
    return heads


def _mainline(history: History, head: int, left: int) -> Iterator[int]:
    index: int | None = head
    while index is not None and left >> index & 1:
        yield index
        parents = history.parents[index]
        index = parents[0] if parents else None
