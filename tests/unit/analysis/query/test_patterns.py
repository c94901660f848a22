"""Regular expressions that a person types."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.query import MOST_PATTERNS, parse
from perftrend.analysis.query.patterns import search_values
from perftrend.errors import FormulaError


@pytest.mark.parametrize(
    ("query", "position"),
    [
        ("test=~(", 6),
        ("a=b&test=!~[", 11),
        ("a=~x&b!=~x(?=y)", 9),
        (r"test=~(a)\1", 6),
        ("test=~" + "a" * 1001, 1006),
        ("test=~((a{100}){100}){100}", 6),
        ("test=~(?P<x", 6),
    ],
)
def test_wrong_expression_is_refused_with_its_position(query: str, position: int) -> None:
    with pytest.raises(FormulaError) as refused:
        parse(query)
    assert position == refused.value.position
    assert "\n" not in str(refused.value)


def test_value_that_only_looks_like_an_expression_is_none() -> None:
    assert "=b=~(" == parse("a==b=~(").terms[0].value


def test_wrong_expression_is_told_to_nobody_else(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(FormulaError):
        parse("a=~(?<=x)y")

    assert ("", "") == capfd.readouterr()


def test_number_of_expressions_is_bounded() -> None:
    assert parse("&".join(["a=~x"] * MOST_PATTERNS)).terms

    with pytest.raises(FormulaError, match="21 regular expressions are too many"):
        parse("&".join(["a=~x"] * (MOST_PATTERNS + 1)))


@pytest.mark.parametrize("pattern", ["(a+)+$", "^(a|a)*$", "(a*)*b", "(.*)(.*)(.*)(.*)(.*)b"])
def test_expressions_that_blow_up_elsewhere_do_not_here(pattern: str) -> None:
    """With backtracking these would not end before the sun does."""
    assert [False, True] == search_values(
        pattern, ["a" * 20_000 + "c", "aab" if "b" in pattern else "aaa"]
    ).tolist()


@given(
    st.text(alphabet="ab.^$|()*+?", max_size=6),
    st.lists(st.text(alphabet="ab", max_size=5), max_size=5),
)
def test_simple_expressions_mean_what_they_mean_elsewhere(pattern: str, values: list[str]) -> None:
    try:
        expression = re.compile(pattern)
        matched = search_values(pattern, values).tolist()
    except (FormulaError, re.error):
        return

    assert [expression.search(value) is not None for value in values] == matched
