"""The commits between an old one and a new one, and git's own order of halving them.

Commits are numbered oldest first; a set of commits is an integer with a bit for each. A commit that
does not build is skipped as ``git bisect skip`` does it: the others are sorted by how well they halve,
and if the best one is skipped, a pseudorandom one is chosen, farther away the more are left.

Source: git, bisect.c (``find_bisection``, ``managed_skipped``) and its documentation of
``rev-list --bisect``. If several commits have the same date, git may order equally good ones
differently.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from perftrend.errors import UsageError


class HistoryCommit(Protocol):
    """The required attributes of a commit."""

    @property
    def hash(self) -> str:
        """The whole hash."""

    @property
    def parents(self) -> tuple[str, ...]:
        """Hashes of the parents, the mainline first; those outside the range are ignored."""


@dataclass(frozen=True, slots=True)
class HalvingStep:
    """The commit to test next, or the suspects if none is left."""

    commit: str | None
    suspects: tuple[str, ...]
    """If no commit is left: the commits that may be the first bad one, oldest first. There is one, unless
    skipped ones hide it."""


class CommitHistory:
    """The commits of a range: reachable from the new commit and not from the old one.

    :param old: hash of the old commit, which is not in the range.
    :param commits: oldest first, in the order of ``git rev-list --reverse old..new``; the last is new.
    :param first_parent: whether to treat merges as a whole: only the mainline is halved.
    :raises UsageError: if the range is empty, holds a commit twice or before its parent, or the mainline
        does not lead to the new commit.
    """

    def __init__(self, old: str, commits: Sequence[HistoryCommit], *, first_parent: bool = False) -> None:
        self.old = old
        self.first_parent = first_parent
        chosen = _mainline(commits) if first_parent else list(commits)
        self.commits: tuple[str, ...] = tuple(commit.hash for commit in chosen)
        if not chosen or old in self.commits:
            raise UsageError(f"no commit to search after {old}; give an older one and a newer one")
        self._index = {commit: index for index, commit in enumerate(self.commits)}
        if len(self._index) != len(self.commits):
            raise UsageError("the range contains a commit twice; list it by git rev-list --reverse")
        self.parents: tuple[tuple[int, ...], ...] = tuple(map(self._parent_indices, chosen))
        self.ancestors: tuple[int, ...] = self._ancestors()
        """For each commit, the set of those in the range that it contains, including itself."""

    @property
    def new(self) -> str:
        """The hash of the new commit."""
        return self.commits[-1]

    def index(self, commit: str) -> int:
        """Return a commit's number; -1 for the old one.

        :raises UsageError: if it is not in the range.
        """
        if commit == self.old:
            return -1
        if commit not in self._index:
            raise UsageError(f"commit {commit} is not between {self.old} and {self.new}")
        return self._index[commit]

    def reachable_from(self, commit: str) -> int:
        """Return the set of commits of the range that a commit contains; 0 for the old one."""
        index = self.index(commit)
        return self.ancestors[index] if index >= 0 else 0

    def contains(self, commit: str, other: str) -> bool:
        """Return whether a commit contains another one with all that it contains."""
        return not self.reachable_from(other) & ~self.reachable_from(commit)

    def hashes(self, chosen: int) -> tuple[str, ...]:
        """Return the hashes of a set of commits, oldest first."""
        return tuple(self.commits[index] for index in members(chosen))

    def next_commit(self, *, good: Iterable[str], bad: str, skipped: Collection[str] = ()) -> HalvingStep:
        """Choose the commit that ``git bisect`` would.

        :param good: commits known to be before the change, the old one among them.
        :param bad: a commit known to be after it.
        :param skipped: commits that cannot be built.
        """
        candidates = self.reachable_from(bad)
        for commit in good:
            candidates &= ~self.reachable_from(commit)
        last = self.index(bad)
        passed = sum(1 << self.index(commit) for commit in set(skipped) - {self.old})
        choice = self._choose_unskipped(candidates, last, passed) if passed else self._halfway(candidates)
        if choice is None or choice == last:
            return HalvingStep(None, self.hashes(candidates & passed | 1 << last))
        return HalvingStep(self.commits[choice], ())

    def _parent_indices(self, commit: HistoryCommit) -> tuple[int, ...]:
        parents = commit.parents[:1] if self.first_parent else commit.parents
        known = tuple(self._index[parent] for parent in parents if parent in self._index)
        if any(parent >= self._index[commit.hash] for parent in known):
            raise UsageError(f"commit {commit.hash} comes before its parent; list the oldest first")
        return known

    def _ancestors(self) -> tuple[int, ...]:
        found: list[int] = []
        for index, parents in enumerate(self.parents):
            contained = 1 << index
            for parent in parents:
                contained |= found[parent]
            found.append(contained)
        return tuple(found)

    def _halfway(self, candidates: int) -> int:
        """Return what ``git rev-list --bisect`` prints: the first commit near enough to half, or the best."""
        total = candidates.bit_count()
        order = tuple(members(candidates))
        within = {index: self._parents_within(index, candidates) for index in order}
        merges = [index for index in order if len(within[index]) > 1]
        # git counts the merges first, and never returns a root early.
        for index in [*merges, *(index for index in order if len(within[index]) == 1)]:
            weight = (self.ancestors[index] & candidates).bit_count()
            if _is_halfway(weight, total):
                return index
        return max(order, key=lambda index: self._distance(index, candidates, total))

    def _choose_unskipped(self, candidates: int, last: int, passed: int) -> int | None:
        total = candidates.bit_count()
        order = sorted(
            members(candidates),
            key=lambda index: (-self._distance(index, candidates, total), self.commits[index]),
        )
        left = [index for index in order if not passed >> index & 1]
        if not left or left[0] == order[0]:
            return left[0] if left else None
        place = _skip_away(len(left))
        if left[place] == last:
            place = max(place - 1, 0)
        return left[place]

    def _parents_within(self, index: int, candidates: int) -> list[int]:
        return [parent for parent in self.parents[index] if candidates >> parent & 1]

    def _distance(self, index: int, candidates: int, total: int) -> int:
        weight = (self.ancestors[index] & candidates).bit_count()
        return min(weight, total - weight)


def members(chosen: int) -> Iterable[int]:
    """Yield the numbers in a set, ascending."""
    while chosen:
        lowest = chosen & -chosen
        yield lowest.bit_length() - 1
        chosen ^= lowest


def _mainline(commits: Sequence[HistoryCommit]) -> list[HistoryCommit]:
    by_hash = {commit.hash: commit for commit in commits}
    line: list[HistoryCommit] = []
    current = commits[-1] if commits else None
    while current is not None:
        line.append(current)
        current = by_hash.get(current.parents[0]) if current.parents else None
    return line[::-1]


def _is_halfway(weight: int, total: int) -> bool:
    difference = abs(2 * weight - total)
    # In long ranges, git accepts a commit within about a thousandth of the half.
    return difference <= 1 or difference < total // 1024


def _skip_away(count: int) -> int:
    """Return the place among ``count`` sorted commits that git chooses if the best one is skipped."""
    modulo = 32768
    random = (count * 1103515245 + 12345) % 2**32 // 65536 % modulo
    return count * random // modulo * _square_root(random) // _square_root(modulo)


def _square_root(value: int) -> int:
    """Return git's approximation of a square root: Newton steps until two differ by less than half."""
    if not value:
        return 0
    x = float(value)
    while True:
        y = (x + value / x) / 2
        if abs(y - x) < 0.5:  # noqa: PLR2004 - git's own limit
            return int(y)
        x = y
