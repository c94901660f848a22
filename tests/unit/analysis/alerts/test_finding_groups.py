"""Grouping by commit range: few groups, each with one commit that explains it, whatever the order."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.alerts import (
    Finding,
    FindingKind,
    common_range,
    group_findings,
)
from perftrend.model import MeasuredCommit, SuspectRange

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def place(commit: int) -> MeasuredCommit:
    return MeasuredCommit(BEGIN + timedelta(days=commit), f"{commit:07x}")


def span(last_good: int, first_changed: int) -> SuspectRange:
    return SuspectRange(place(last_good), place(first_changed))


def finding(
    trace: str, last_good: int, first_changed: int, kind: FindingKind = FindingKind.REGRESSION
) -> Finding:
    where = span(last_good, first_changed)
    return Finding(kind, trace, where, where)


def commits(where: SuspectRange) -> set[int]:
    """Return the numbers of the commits in a range."""
    first = (where.last_good.moment - BEGIN).days + 1
    return set(range(first, (where.first_changed.moment - BEGIN).days + 1))


ENDS = st.tuples(st.integers(0, 20), st.integers(1, 6)).map(lambda each: (each[0], each[0] + each[1]))
RANGES = st.lists(ENDS, min_size=1, max_size=12)


def test_range_without_a_commit_is_refused() -> None:
    with pytest.raises(ValueError, match="no commit"):
        span(3, 3)


def test_traces_that_one_commit_may_explain_are_one_group() -> None:
    groups = group_findings([finding("a", 3, 8), finding("b", 5, 6), finding("c", 2, 7)])

    assert [["a", "b", "c"]] == [[member.trace for member in group.members] for group in groups]
    assert {6} == commits(groups[0].range)


def test_chain_of_overlaps_is_no_common_reason() -> None:
    groups = group_findings([finding("a", 0, 4), finding("b", 3, 8), finding("c", 7, 12)])

    assert [["a", "b"], ["c"]] == [[member.trace for member in group.members] for group in groups]


def test_ranges_that_touch_have_no_commit_in_common() -> None:
    assert 2 == len(group_findings([finding("a", 0, 4), finding("b", 4, 8)]))


def test_findings_join_the_item_that_stands_there() -> None:
    groups = group_findings([finding("a", 3, 8), finding("b", 20, 22)], [(7, span(5, 6))])

    assert [(7, "a"), (None, "b")] == [(group.item, group.members[0].trace) for group in groups]


def test_of_two_items_the_oldest_is_joined() -> None:
    (group,) = group_findings([finding("a", 3, 8)], [(9, span(5, 6)), (4, span(5, 7))])

    assert 4 == group.item


def test_item_that_nothing_joins_makes_no_group() -> None:
    assert [] == group_findings([], [(1, span(0, 1))])


@given(RANGES, st.randoms(use_true_random=False))
def test_any_order_gives_the_same_groups(ends: list[tuple[int, int]], chance: random.Random) -> None:
    found = [finding(f"{number:02}", *each) for number, each in enumerate(ends)]
    shuffled = chance.sample(found, len(found))

    assert group_findings(found) == group_findings(shuffled)


@given(RANGES)
def test_each_finding_is_in_one_group_and_each_group_has_a_common_commit(ends: list[tuple[int, int]]) -> None:
    found = [finding(f"{number:02}", *each) for number, each in enumerate(ends)]

    groups = group_findings(found)

    assert sorted(each.trace for each in found) == sorted(
        member.trace for group in groups for member in group.members
    )
    for group in groups:
        common = set.intersection(*(commits(member.range) for member in group.members))
        assert commits(group.range) == common
        assert common


@given(st.lists(ENDS, min_size=1, max_size=6))
def test_no_fewer_commits_explain_everything(ends: list[tuple[int, int]]) -> None:
    ranges = [commits(span(*each)) for each in ends]
    candidates = sorted(set.union(*ranges))
    fewest = next(
        size
        for size in range(1, len(ranges) + 1)
        if any(all(each & set(chosen) for each in ranges) for chosen in combinations(candidates, size))
    )

    assert fewest == len(group_findings([finding(f"{number}", *each) for number, each in enumerate(ends)]))


@given(RANGES)
def test_common_range_lies_in_as_many_ranges_as_any_commit_does(ends: list[tuple[int, int]]) -> None:
    ranges = [span(*each) for each in ends]
    depth = {commit: sum(commit in commits(each) for each in ranges) for commit in range(30)}

    found = commits(common_range(ranges))

    assert found
    assert {max(depth.values())} == {depth[commit] for commit in found}
    assert min(found) == min(commit for commit, deep in depth.items() if deep == max(depth.values()))
