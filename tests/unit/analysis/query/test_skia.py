"""Queries of Skia Perf mean here what they mean there."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.query import import_queries
from perftrend.errors import FormulaError


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
