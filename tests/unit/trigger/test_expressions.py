"""Tag expressions mean to Robot Framework what they were accepted for."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from robot.model.tags import NotTagPattern, SingleTagPattern, TagPattern, TagPatterns

from perftrend.trigger import Trigger, parse

pieces = st.sampled_from(
    ["mrr", "2t1c", "AND", "OR", "NOT", "&", "*", "?", "[ab]", "[!a]", "N", "D", "x_", "none", "T"]
)


def accepted(expression: str) -> str | None:
    answers = parse(f"perftest-2n-clx {expression}")
    return answers[0].include[0] if answers and isinstance(answers[0], Trigger) else None


def missing(pattern: TagPattern) -> Iterator[bool]:
    """Tell of each tag of a pattern whether it is missing; the one before a leading NOT may be."""
    if isinstance(pattern, SingleTagPattern):
        yield not pattern
        return
    parts = list(pattern)
    if isinstance(pattern, NotTagPattern) and isinstance(parts[0], SingleTagPattern):
        parts = parts if parts[0] else parts[1:]
    for part in parts:
        yield from missing(part)


@given(st.lists(pieces, min_size=1, max_size=7).map("".join))
def test_an_expression_is_accepted_where_robot_framework_misses_no_tag(expression: str) -> None:
    with warnings.catch_warnings():
        # Robot Framework 8 will want blanks around operators between tags in capitals.
        warnings.simplefilter("ignore")
        pattern = TagPattern.from_string(expression)
    tags = re.split("AND|OR|NOT|&", expression)
    is_complete = not any(missing(pattern)) and not any(tag.strip("_") == "none" for tag in tags)

    assert is_complete == (accepted(expression) is not None)


@pytest.mark.parametrize("typed", ["mrr AND 64b", "mrr & 64b", "mrr&64b", "mrrAND64b"])
def test_blanks_around_operators_change_nothing(typed: str) -> None:
    assert "mrrAND64b" == accepted(typed)


def test_none_would_select_every_test() -> None:
    """Robot Framework drops it, and filters by no pattern at all."""
    assert 0 == len(TagPatterns(["none"]))
    assert accepted("none") is None


@pytest.mark.parametrize("tags", [("mrr", "64B"), ("MRR", "64b", "soak"), ("mrr",), ("ndrpdr", "64b")])
def test_what_is_handed_to_robot_framework_selects_what_was_asked_for(tags: tuple[str, ...]) -> None:
    """In small letters, as Robot Framework 8 will want tags beside operators; a warning would fail this."""
    (trigger,) = parse("perftest-2n-clx MrrAND64BNOTSoak !Scale")

    assert isinstance(trigger, Trigger)
    assert (tags == ("mrr", "64B")) == TagPatterns(trigger.include_patterns).match(tags)
    assert ("scale",) == trigger.exclude_patterns
