"""The findings of a night are matched with those of earlier nights, and reported once."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.alerts import (
    Finding,
    FindingKind,
    KnownFinding,
    distinct,
    match_findings,
)
from perftrend.model import MeasuredCommit, SuspectRange

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def place(commit: int) -> MeasuredCommit:
    return MeasuredCommit(BEGIN + timedelta(days=commit), f"{commit:07x}")


def span(last_good: int, first_changed: int) -> SuspectRange:
    return SuspectRange(place(last_good), place(first_changed))


def finding(
    trace: str,
    last_good: int,
    first_changed: int,
    *,
    kind: FindingKind = FindingKind.REGRESSION,
    confidence: float = 0.9,
) -> Finding:
    near = span(max(last_good - 2, 0), first_changed + 2)
    return Finding(kind, trace, span(last_good, first_changed), near, 10.0, 9.0, confidence=confidence)


def known(identity: int, trace: str, last_good: int, first_changed: int, *, item: int = 1) -> KnownFinding:
    return KnownFinding(identity, item, FindingKind.REGRESSION, trace, span(last_good, first_changed))


def test_change_that_is_found_again_is_not_told_again() -> None:
    night = match_findings([known(5, "a", 3, 8)], [finding("a", 4, 6)])

    assert {5: finding("a", 4, 6)} == night.again
    assert () == night.groups
    assert () == night.gone


def test_change_whose_start_moved_by_a_run_is_the_same() -> None:
    night = match_findings([known(5, "a", 3, 4)], [finding("a", 5, 6)])

    assert [5] == list(night.again)


def test_later_change_of_the_same_trace_is_news() -> None:
    night = match_findings([known(5, "a", 3, 4)], [finding("a", 3, 4), finding("a", 20, 21)])

    assert [5] == list(night.again)
    assert [finding("a", 20, 21)] == [member for group in night.groups for member in group.members]


def test_improvement_is_no_part_of_a_regression() -> None:
    better = finding("a", 3, 4, kind=FindingKind.PROGRESSION)

    night = match_findings([known(5, "a", 3, 4)], [finding("a", 3, 4), better])

    assert [(None, (better,))] == [(group.item, group.members) for group in night.groups]


def test_trace_that_changes_at_the_same_commit_joins_the_item() -> None:
    night = match_findings([known(5, "a", 3, 8)], [finding("a", 3, 8), finding("b", 6, 7)])

    assert [1] == [group.item for group in night.groups]


def test_trace_does_not_join_where_the_item_lies_elsewhere_tonight() -> None:
    night = match_findings([known(5, "a", 3, 8)], [finding("a", 3, 5), finding("b", 6, 7)])

    assert [None] == [group.item for group in night.groups]


def test_change_that_is_not_found_any_more_is_gone_once() -> None:
    first = match_findings([known(5, "a", 3, 8)], [])
    second = match_findings([replace(known(5, "a", 3, 8), gone=True)], [])

    assert (5,) == first.gone
    assert () == second.gone


def test_change_that_the_window_left_behind_is_not_gone() -> None:
    assert () == match_findings([known(5, "a", 3, 8)], [], was_looked_at=lambda _: False).gone


def test_change_that_comes_back_is_known() -> None:
    night = match_findings([replace(known(5, "a", 3, 8), gone=True)], [finding("a", 4, 5)])

    assert [5] == list(night.again)
    assert () == night.groups


def test_nothing_joins_an_item_of_which_nothing_is_left() -> None:
    night = match_findings([replace(known(5, "a", 3, 8), gone=True)], [finding("b", 4, 5)])

    assert [None] == [group.item for group in night.groups]


def test_small_change_that_is_known_is_found_although_it_would_not_be_told_as_new() -> None:
    night = match_findings([known(5, "a", 3, 8)], [finding("a", 4, 5)], is_new=lambda _: False)

    assert [5] == list(night.again)
    assert () == night.gone


def test_what_two_alerts_found_is_one_finding_with_both() -> None:
    sure, unsure = finding("a", 4, 5, confidence=0.99), finding("a", 3, 6, confidence=0.5)

    assert {sure: frozenset({1, 2})} == distinct([(2, unsure), (1, sure)])


def test_two_changes_that_one_alert_tells_apart_stay_two() -> None:
    found = [(1, finding("a", 4, 5)), (1, finding("a", 6, 7))]

    assert 2 == len(distinct(found))


@st.composite
def nights(draw: st.DrawFn) -> tuple[list[KnownFinding], list[Finding]]:
    ends = st.tuples(st.integers(0, 30), st.integers(1, 5))
    traces = st.sampled_from("abcd")
    old = draw(st.lists(st.tuples(traces, ends, st.integers(1, 3), st.booleans()), max_size=8))
    new = draw(
        st.lists(
            st.tuples(traces, ends, st.sampled_from([FindingKind.REGRESSION, FindingKind.PROGRESSION])),
            max_size=8,
        )
    )
    return (
        [
            replace(known(number, trace, first, first + length, item=item), gone=gone)
            for number, (trace, (first, length), item, gone) in enumerate(old)
        ],
        list({finding(trace, first, first + length, kind=kind) for trace, (first, length), kind in new}),
    )


@given(nights(), st.randoms(use_true_random=False))
def test_order_does_not_matter(
    night: tuple[list[KnownFinding], list[Finding]], chance: random.Random
) -> None:
    old, new = night

    assert match_findings(old, new) == match_findings(
        chance.sample(old, len(old)), chance.sample(new, len(new))
    )


@given(nights())
def test_each_finding_is_known_or_in_one_group(night: tuple[list[KnownFinding], list[Finding]]) -> None:
    old, new = night

    result = match_findings(old, new)

    placed = [*result.again.values(), *(member for group in result.groups for member in group.members)]
    assert sorted(map(str, new)) == sorted(map(str, placed))
    for identity, found in result.again.items():
        assert (old[identity].trace, old[identity].kind) == (found.trace, found.kind)


@given(nights())
def test_same_night_once_more_tells_nothing(night: tuple[list[KnownFinding], list[Finding]]) -> None:
    """What a night found is remembered, so that it finds nothing new in it, and nothing gone."""
    _, new = night
    first = match_findings([], new)
    remembered = [
        KnownFinding(100 * number + place, number, member.kind, member.trace, member.range)
        for number, group in enumerate(first.groups)
        for place, member in enumerate(group.members)
    ]

    again = match_findings(remembered, new)

    assert () == again.groups
    assert () == again.gone
