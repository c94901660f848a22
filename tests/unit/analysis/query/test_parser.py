"""Queries that a person types, and the forms of Skia Perf, which mean here what they mean there."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.query import MOST_PATTERNS, format_skia_name, import_queries, parse, parse_skia_name
from perftrend.analysis.query.parser import search_values
from perftrend.errors import FormulaError
from perftrend.model import TraceKey


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


def imported(text: str) -> list[str]:
    return [str(query) for query in import_queries(text)]


@pytest.mark.parametrize(
    ("skia", "here"),
    [
        ("", ""),
        ("config=8888&config=gpu", "config=8888&config=gpu"),
        ("arch=!x86", "arch?!=x86"),
        ("arch=!~^x", "arch?!=~^x"),
        ("arch=~^x", "arch=~^x"),
        ("arch=*", "arch=~"),
        ("name=a%26b+c", "name=a%26b c"),
        ("name=a%2Bb", "name=a+b"),
        ("ok%3F=!x", "ok%3F?!=x"),
    ],
)
def test_query_is_written_with_the_terms_of_this_place(skia: str, here: str) -> None:
    assert [here] == imported(skia)


@pytest.mark.parametrize(
    ("query", "parameters", "expected"),
    [
        ("arch=!x86", {"arch": "arm"}, True),
        ("arch=!x86", {"arch": "x86"}, False),
        ("arch=!x86", {}, True),
        ("arch=!x86&arch=!arm", {}, True),
        ("arch=!~x", {}, True),
        ("arch=!x86&arch=arm", {}, False),
        ("arch=!x86&arch=*", {}, False),
        ("arch=!x86&arch=*", {"arch": "arm"}, True),
        ("arch=*", {}, False),
        ("arch=!x86&os=linux", {"os": "linux"}, True),
    ],
)
def test_trace_without_a_parameter_fits_what_only_negates_it(
    query: str, parameters: dict[str, str], *, expected: bool
) -> None:
    (found,) = import_queries(query)

    assert expected is found.matches(parameters, lambda pattern, value: bool(re.search(pattern, value)))


def test_queries_of_an_address_are_found() -> None:
    address = "https://perf.skia.org/e/?begin=1&queries=config%3D8888&queries=arch%3D!x86&keys=X#top"

    assert ["config=8888", "arch?!=x86"] == imported(address)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("https://perf.skia.org/e/?keys=X12", "no queries="),
        ("https://[", "no queries="),
        ("arch", "key=!value"),
        ("arch=", "key=!value"),
        ("=x", "key=!value"),
        ("arch=~(", "is not a valid RE2 regular expression"),
        ("&".join(["a=b"] * 501), "at most 500"),
        (f"a={'b' * 10_000}", "at most 10000"),
    ],
)
def test_what_cannot_be_imported_is_refused(text: str, reason: str) -> None:
    with pytest.raises(FormulaError, match=reason):
        import_queries(text)


@given(st.text())
def test_any_text_is_imported_or_refused(text: str) -> None:
    with suppress(FormulaError):
        import_queries(text)


def test_name_is_made_of_the_values_in_the_order_of_their_parameters() -> None:
    assert "x86_64:gpu:Win8" == format_skia_name(TraceKey.of(os="Win8", arch="x86_64", config="gpu"))


@given(st.dictionaries(st.text(min_size=1), st.text(), min_size=1))
def test_values_come_back(parameters: dict[str, str]) -> None:
    key = TraceKey.of(**parameters)

    assert tuple(value for _, value in key.parameters) == parse_skia_name(format_skia_name(key))


def test_wrong_name_is_refused_with_its_position() -> None:
    with pytest.raises(FormulaError) as refused:
        parse_skia_name("a:b%:c")

    assert 3 == refused.value.position
