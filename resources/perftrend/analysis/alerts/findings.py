"""Findings: changes or missing data in one trace, and their matches with the findings of earlier nights.

The commits of a testbed are in the order of time, each at the moment when it was first measured. A change
is after the last good commit and no later than the first changed one: the range (last good, first changed].
Two ranges overlap if one commit may be the reason for both.

A finding is known if there is one of the same trace and the same kind whose range overlaps the wider range
of tonight's: with more values the place of a change moves by a run or two, and becomes narrower. The nearest
ones are matched, each to one only. A known finding is not reported again; its item gets tonight's range.

A finding is gone if its trace was analysed and it is not found tonight. That needs values before it:
a finding before the window of the analysis is not gone.

The new findings of a testbed and of one kind are put into as few groups as possible so that all ranges of a
group have a commit in common: that is the fewest commits that explain everything. Ranges are processed in the
order of their ends. The first remaining one opens a group, and every range that begins before its end joins
it. Only the ranges matter, so any order of the findings gives the same groups. A chain of overlaps is not a
common reason: of three ranges of which only neighbours overlap, two make a group. An existing item takes part
with its own range, and the findings in its group join it. If several items are in a group, they join the
oldest. If users merged items, the item takes part with the range of each: what would have joined one of them
joins the item.

Source: the least number of points that pierce all intervals: Gavril, Algorithms for minimum coloring, maximum
clique, minimum covering by cliques, and maximum independent set of a chordal graph, 1972.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from itertools import pairwise
from operator import attrgetter

from perftrend.model import MeasuredCommit, SuspectRange, finite


class FindingKind(StrEnum):
    """The kinds of findings; findings of different kinds are never grouped."""

    REGRESSION = "regression"
    PROGRESSION = "progression"
    TESTBED = "testbed"
    """A regression that the reference build of the testbed has as well."""
    SILENCE = "silence"
    """A trace that had values has stopped having any."""
    STOPPED = "stopped"
    """A testbed that had runs has stopped having any."""


CHANGES = (FindingKind.REGRESSION, FindingKind.PROGRESSION, FindingKind.TESTBED)


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding in one trace, or in a whole testbed."""

    kind: FindingKind
    trace: str
    """The hash of its key; empty for a testbed."""
    range: SuspectRange
    near: SuspectRange
    """A wider range: a finding of another night that overlaps it is the same finding."""
    before: float = math.nan
    """Average before the change, in the unit of the trace; for missing data the last value."""
    after: float = math.nan
    low: float = math.nan
    """The least value of ``after - before`` at 95 %; NaN if not known."""
    high: float = math.nan
    confidence: float = math.nan
    """One less the probability that noise alone causes it; NaN if not known."""
    silent_since: MeasuredCommit | None = None
    """For missing data: the commit at which it had lasted long enough to be reported."""

    @property
    def noticed(self) -> MeasuredCommit:
        """The first commit at which it could be reported."""
        return self.silent_since or self.range.first_changed

    @property
    def numbers(self) -> dict[str, float | None]:
        """The numbers of the change, by name; None if not known."""
        names = ("before", "after", "low", "high", "confidence")
        return {name: finite(getattr(self, name)) for name in names}

    @property
    def relative(self) -> float:
        """The step relative to the value before; NaN if that was zero."""
        return (self.after - self.before) / abs(self.before) if self.before else math.nan


@dataclass(frozen=True, slots=True)
class Threshold:
    """The conditions for reporting a change."""

    change: float = 0.01
    """Relative to the value before."""
    confidence: float = 0.0
    """0: not required; otherwise, an unknown confidence is too low."""

    def passes(self, finding: Finding) -> bool:
        """Whether a finding is reported; missing data always is. A step from zero passes any threshold."""
        if finding.kind not in CHANGES:
            return True
        is_large = math.isnan(finding.relative) or abs(finding.relative) >= self.change
        return is_large and (not self.confidence or finding.confidence >= self.confidence)


def largest(findings: Iterable[Finding]) -> Finding | None:
    """Return the finding with the largest relative step; of equal ones that of the first trace by hash."""
    return min(findings, key=lambda each: (-_size(each), each.trace), default=None)


@dataclass(frozen=True, slots=True)
class KnownFinding:
    """A finding of an earlier night."""

    identity: int
    item: int
    kind: FindingKind
    trace: str
    range: SuspectRange
    gone: bool = False
    """Whether it was not found last time."""
    origin: int | None = None
    """The item that it was found for, if a user merged that into ``item``."""


@dataclass(frozen=True, slots=True)
class FindingMatches:
    """The findings of a night, matched with the items."""

    again: Mapping[int, Finding]
    """Found once more, by the identity of the known finding."""
    gone: tuple[int, ...]
    """Known findings that were present and are not found any more, ascending."""
    groups: tuple[FindingGroup, ...]
    """New findings, grouped into the items that they join or create."""


def match_findings(
    known: Sequence[KnownFinding],
    found: Iterable[Finding],
    *,
    is_new: Callable[[Finding], bool] = lambda _: True,
    was_looked_at: Callable[[KnownFinding], bool] = lambda _: True,
) -> FindingMatches:
    """Match the findings of a night on a testbed with the known ones.

    :param found: each change once; see :func:`distinct`.
    :param is_new: whether an unknown finding is reported: it is large enough and not old.
    :param was_looked_at: whether a known finding would have been found if it were still present.
    """
    again, unknown = match_known(known, found)
    gone = (each.identity for each in known if not each.gone and each.identity not in again)
    looked_at = {each.identity for each in known if was_looked_at(each)}
    open_items = _ranges(known, again)
    fresh = [finding for finding in unknown if is_new(finding)]
    groups = [
        group
        for kind in FindingKind
        for group in group_findings(
            [finding for finding in fresh if finding.kind is kind],
            [(item, span) for of_kind, item, span in open_items if of_kind is kind],
        )
    ]
    return FindingMatches(again, tuple(sorted(each for each in gone if each in looked_at)), tuple(groups))


def match_known(
    known: Iterable[KnownFinding], found: Iterable[Finding]
) -> tuple[dict[int, Finding], tuple[Finding, ...]]:
    """Match findings with the known ones.

    :returns: tonight's finding by the identity of the known one; and the unknown findings.
    """
    by_trace: dict[tuple[FindingKind, str], list[KnownFinding]] = {}
    for each in known:
        by_trace.setdefault((each.kind, each.trace), []).append(each)
    tonight = sorted(found, key=_order)
    pairs = sorted(
        (_distance(old, new), old.identity, number)
        for number, new in enumerate(tonight)
        for old in by_trace.get((new.kind, new.trace), ())
        if old.range.overlaps(new.near)
    )
    again: dict[int, int] = {}
    used: set[int] = set()
    for _, identity, number in pairs:
        if identity not in again and number not in used:
            again[identity] = number
            used.add(number)
    rest = tuple(new for number, new in enumerate(tonight) if number not in used)
    return {identity: tonight[number] for identity, number in again.items()}, rest


def distinct(found: Iterable[tuple[int, Finding]]) -> dict[Finding, frozenset[int]]:
    """Merge the findings of several alerts about one change of a trace.

    :param found: findings with the alert that found each.
    :returns: the most certain finding of each change, with all alerts that found it.
    """
    merged: dict[tuple[FindingKind, str], list[tuple[Finding, set[int]]]] = {}
    for alert, finding in sorted(found, key=lambda each: (_certainty(each[1]), _order(each[1]), each[0])):
        same = merged.setdefault((finding.kind, finding.trace), [])
        for other, alerts in same:
            # Two changes that one alert distinguishes are two.
            if other == finding or (alert not in alerts and other.range.overlaps(finding.near)):
                alerts.add(alert)
                break
        else:
            same.append((finding, {alert}))
    return {finding: frozenset(alerts) for same in merged.values() for finding, alerts in same}


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
    findings: Iterable[Finding], open_items: Iterable[tuple[int, SuspectRange]] = ()
) -> list[FindingGroup]:
    """Group findings by their ranges.

    :param findings: the findings of one testbed and one kind.
    :param open_items: the items that they may join, each with its range; a merged item has several.
    :returns: groups in the order of time, each with at least one finding.
    """
    spans: list[tuple[SuspectRange, Finding | int]] = [(finding.range, finding) for finding in findings]
    spans += [(span, item) for item, span in open_items]
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


def _size(finding: Finding) -> float:
    return 0.0 if math.isnan(finding.relative) else abs(finding.relative)


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


def _ranges(
    known: Iterable[KnownFinding], again: Mapping[int, Finding]
) -> list[tuple[FindingKind, int, SuspectRange]]:
    """Return the range of each open item, as found tonight; of each part of one that users merged."""
    ranges: dict[tuple[FindingKind, int, int | None], list[SuspectRange]] = {}
    for each in known:
        part = (each.kind, each.item, each.origin)
        if each.identity in again:
            ranges.setdefault(part, []).append(again[each.identity].range)
        elif not each.gone:
            ranges.setdefault(part, []).append(each.range)
    return [(kind, item, common_range(spans)) for (kind, item, _), spans in ranges.items()]


def _distance(old: KnownFinding, new: Finding) -> timedelta:
    return abs(old.range.first_changed.moment - new.range.first_changed.moment)


def _order(finding: Finding) -> tuple[object, ...]:
    place = finding.range
    sizes = (-1.0 if math.isnan(each) else each for each in (finding.before, finding.after))
    return finding.trace, finding.kind, place.first_changed, place.last_good, *sizes


def _certainty(finding: Finding) -> float:
    return 1.0 if math.isnan(finding.confidence) else -finding.confidence
