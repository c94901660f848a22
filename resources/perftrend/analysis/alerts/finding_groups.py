"""Groups of findings that one commit may explain.

The findings of a testbed and of one kind are put into as few groups as possible so that all ranges of a
group have a commit in common: that is the fewest commits that explain everything. Ranges are processed in the
order of their ends. The first remaining one opens a group, and every range that begins before its end joins
it. Only the ranges matter, so any order of the findings gives the same groups. A chain of overlaps is not a
common reason: of three ranges of which only neighbours overlap, two make a group.

An existing item takes part with its own range, and the findings in its group join it. If
several items are in a group, they join the oldest.

Source: the least number of points that pierce all intervals: Gavril, Algorithms for minimum coloring, maximum
clique, minimum covering by cliques, and maximum independent set of a chordal graph, 1972.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter

from perftrend.analysis.alerts.findings import Finding, MeasuredCommit, SuspectRange


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """Findings that one commit may explain."""

    members: tuple[Finding, ...]
    """In the order of their traces' hashes and of their ranges."""
    item: int | None = None
    """The item that they join; None: they make a new one."""

    @property
    def range(self) -> SuspectRange:
        """The commits that are in the ranges of all members."""
        return common_range([member.range for member in self.members])


def group_findings(
    findings: Iterable[Finding], open_items: Mapping[int, SuspectRange] | None = None
) -> list[FindingGroup]:
    """Group findings by their ranges.

    :param findings: the findings of one testbed and one kind.
    :param open_items: the ranges of the items that they may join, by identity.
    :returns: groups in the order of time, each with at least one finding.
    """
    spans: list[tuple[SuspectRange, Finding | int]] = [(finding.range, finding) for finding in findings]
    spans += [(span, item) for item, span in (open_items or {}).items()]
    spans.sort(key=lambda each: each[0].first_changed)
    together: list[list[Finding | int]] = []
    ends: list[MeasuredCommit] = []
    for span, what in spans:
        group = bisect_right(ends, span.last_good)
        if group == len(ends):
            ends.append(span.first_changed)
            together.append([])
        together[group].append(what)
    return [group for group in map(_group, together) if group.members]


def common_range(ranges: Sequence[SuspectRange]) -> SuspectRange:
    """Return the commits that are in most of the ranges, the earliest such commits; in all if possible.

    :param ranges: at least one.
    """
    edges = sorted(
        [(span.last_good, 1) for span in ranges] + [(span.first_changed, -1) for span in ranges],
        # If one ends where another begins, no commit is in both.
        key=lambda edge: (edge[0].moment, edge[1]),
    )
    depth = deepest = 0
    best: tuple[MeasuredCommit, MeasuredCommit] | None = None
    for (place, change), (following, _) in pairwise(edges):
        depth += change
        if depth > deepest and place < following:
            deepest, best = depth, (place, following)
    if best is None:
        raise ValueError("no range was given")
    return SuspectRange(*best)


def _group(together: Iterable[Finding | int]) -> FindingGroup:
    members: list[Finding] = []
    items: list[int] = []
    for each in together:
        if isinstance(each, int):
            items.append(each)
        else:
            members.append(each)
    members.sort(key=attrgetter("trace", "range.last_good", "range.first_changed"))
    return FindingGroup(tuple(members), min(items, default=None))
