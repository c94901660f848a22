"""Simulated commits: how they descend from each other, and which of them do not build."""

from __future__ import annotations

import numpy as np

from perftrend.bisect.state import Commit

OLD = "0" * 40
"""The commit that a range begins after."""
_LONGEST_BRANCH = 6
_GOES_ON = 0.5
"""Probability that the mainline continues alongside a branch."""
_STRETCH = 4.0
"""Commits that do not build come in stretches of this length on average."""


def commits(size: int, branches: float, random: np.random.Generator) -> tuple[Commit, ...]:
    """Return commits, oldest first.

    :param size: the number of commits, all of which the last one contains.
    :param branches: the probability that a branch begins at a commit of the mainline. It has up to six
        commits, and is merged.
    """
    parents: list[list[int]] = []
    tip = -1
    while len(parents) < size:
        length = int(random.integers(1, _LONGEST_BRANCH + 1)) if random.random() < branches else 0
        if length and size - len(parents) > length + 1:
            tip = _branched(parents, tip, length, goes_on=random.random() < _GOES_ON)
        else:
            parents.append([tip])
            tip = len(parents) - 1
    names = [f"{index + 1:040x}" for index in range(size)]
    return tuple(
        Commit(names[index], tuple(names[each] if each >= 0 else OLD for each in known))
        for index, known in enumerate(parents)
    )


def unbuildable(
    size: int, share: float, culprits: tuple[int, ...], random: np.random.Generator
) -> frozenset[int]:
    """Choose stretches of commits that do not build; in every second history, one is at a culprit.

    :param share: minimum fraction of the commits before the last one. The last one always builds.
    """
    if not share:
        return frozenset()
    found: frozenset[int] = frozenset()
    if culprits and random.random() < 0.5:  # noqa: PLR2004 - in every second history
        length = int(random.geometric(1 / _STRETCH))
        start = culprits[0] - int(random.integers(0, length + 1))
        found = _stretch(start, length, size)
    while len(found) < share * (size - 1):
        found |= _stretch(int(random.integers(0, size)), int(random.geometric(1 / _STRETCH)), size)
    return found


def _stretch(start: int, length: int, size: int) -> frozenset[int]:
    """Return the part of a stretch that is in the range, without the last commit."""
    return frozenset(range(max(start, 0), min(start + length, size - 1)))


def _branched(parents: list[list[int]], tip: int, length: int, *, goes_on: bool) -> int:
    """Append a branch of ``length`` commits and its merge, and return the merge."""
    side = tip
    for _ in range(length):
        parents.append([side])
        side = len(parents) - 1
    if goes_on:
        parents.append([tip])
        tip = len(parents) - 1
    parents.append([tip, side])
    return len(parents) - 1
