"""Traces that a query fits, and what each further value would leave."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.formula import Query, Term, parse_query
from perftrend.analysis.query import TraceTable, ValueChoice, parse
from perftrend.errors import FormulaError, SettingsError
from perftrend.model import TraceKey

KEYS = [
    TraceKey.of(test="ip4", frame="64B", driver="avf"),
    TraceKey.of(test="ip4", frame="1518B", driver="rdma"),
    TraceKey.of(test="ip6", frame="64B", driver="avf"),
    TraceKey.of(test="l2xc", frame="IMIX"),
]
TABLE = TraceTable(KEYS, {"unit": ["pps", "pps", "s", ""]})


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("", [0, 1, 2, 3]),
        ("test=ip4", [0, 1]),
        ("test=ip4&test=ip6", [0, 1, 2]),
        ("test=ip4&frame=64B", [0]),
        ("driver=!avf", [1]),
        ("driver!=avf&driver!=rdma", []),
        ("driver?!=avf", [1, 3]),
        ("driver?!=avf&driver!=rdma", []),
        ("nothing?!=x", [0, 1, 2, 3]),
        ("test=~^ip", [0, 1, 2]),
        ("test=~ip&test!=ip6", [0, 1]),
        ("test!=~ip", [3]),
        ("driver=~", [0, 1, 2]),
        ("unit=pps", [0, 1]),
        ("nothing=x", []),
        ("test=x", []),
    ],
)
def test_query_selects(query: str, rows: list[int]) -> None:
    assert rows == TABLE.rows(parse(query)).tolist()


def test_own_parameter_outweighs_a_further_one() -> None:
    table = TraceTable([TraceKey.of(unit="MB"), TraceKey.of(test="x")], {"unit": ["pps", "s"]})

    assert [0] == table.rows(parse("unit=MB")).tolist()
    assert [] == table.rows(parse("unit=s")).tolist()


def test_further_values_are_one_a_trace() -> None:
    with pytest.raises(SettingsError, match="1 values of unit for 4"):
        TraceTable(KEYS, {"unit": ["pps"]})


VALUES = st.sampled_from(["a", "b", "ab", "ba", ""])
NAMES = st.sampled_from(["p", "q", "r"])
TABLES = st.lists(
    st.dictionaries(NAMES, VALUES, min_size=1).map(lambda found: TraceKey.of(**found)), max_size=8
)
TERMS = st.builds(Term, NAMES, VALUES, st.booleans(), st.booleans()) | st.builds(
    Term, NAMES, VALUES, st.just(True), st.booleans(), st.booleans()
)
QUERIES = st.lists(TERMS, max_size=5).map(lambda terms: Query(tuple(terms)))


def fits(pattern: str, value: str) -> bool:
    return re.search(pattern, value) is not None


@given(TABLES, QUERIES)
def test_table_agrees_with_the_meaning_of_queries(keys: list[TraceKey], query: Query) -> None:
    expected = [place for place, key in enumerate(keys) if query.matches(key.as_dict(), fits)]

    assert expected == TraceTable(keys).rows(query).tolist()


@given(TABLES, QUERIES, NAMES)
def test_choices_tell_what_would_be_left(keys: list[TraceKey], query: Query, name: str) -> None:
    table = TraceTable(keys)
    others = tuple(term for term in query.terms if term.key != name)

    for choice in table.choices(query).get(name, []):
        assert choice.count == len(table.rows(Query((*others, Term(name, choice.value)))))


@given(TABLES, QUERIES)
def test_choices_miss_no_value_of_a_trace_that_is_left(keys: list[TraceKey], query: Query) -> None:
    table = TraceTable(keys)
    choices = table.choices(query)

    for row in table.rows(query):
        for name, value in keys[row].parameters:
            assert value in [choice.value for choice in choices[name]]


def test_numbers_in_values_are_in_their_order() -> None:
    assert [ValueChoice("64B", 2), ValueChoice("1518B", 1), ValueChoice("IMIX", 1)] == TABLE.choices(
        parse("")
    )["frame"]


def test_values_are_those_that_the_traces_have() -> None:
    keys = [
        TraceKey.of(frame="1518B"),
        TraceKey.of(frame="64B"),
        TraceKey.of(frame="64B"),
        TraceKey.of(cores="1c"),
    ]
    table = TraceTable(keys)

    assert table.values("frame", np.array([0, 2, 3])) == ["64B", "1518B"]
    assert table.values("frame", np.array([3])) == []
    assert table.values("driver", np.array([0])) == []


def test_chosen_value_stays_among_the_choices_when_nothing_is_left() -> None:
    choices = TABLE.choices(parse("test=l2xc&frame=64B"))

    assert [ValueChoice("64B", 0), ValueChoice("IMIX", 1)] == choices["frame"]
    assert "driver" not in choices


def test_a_further_choice_of_the_same_parameter_is_an_alternative() -> None:
    assert [ValueChoice("ip4", 1), ValueChoice("ip6", 1)] == TABLE.choices(parse("test=ip4&frame=64B"))[
        "test"
    ]


def test_parameters_are_those_of_all_traces() -> None:
    assert ("driver", "frame", "test", "unit") == TABLE.parameters


@given(TABLES, TABLES, st.lists(VALUES, min_size=8, max_size=8), QUERIES)
def test_table_that_gets_further_traces_is_that_of_all(
    keys: list[TraceKey], more: list[TraceKey], owners: list[str], query: Query
) -> None:
    def table(some: list[TraceKey]) -> TraceTable:
        # What is beside the parameters may have the name of one that only some traces have.
        return TraceTable(some, {"r": owners[: len(some)], "s": owners[::-1][: len(some)]})

    whole = TraceTable(
        [*keys, *more],
        {"r": owners[: len(keys)] + owners[: len(more)]}
        | {"s": owners[::-1][: len(keys)] + owners[::-1][: len(more)]},
    )
    grown = table(keys).concatenate(table(more))
    rows = np.arange(len(whole))

    assert (whole.keys, whole.place_of) == (grown.keys, grown.place_of)
    assert whole.parameters == grown.parameters
    assert whole.choices(query) == grown.choices(query)
    assert whole.rows(query).tolist() == grown.rows(query).tolist()
    assert {name: whole.values(name, rows) for name in whole.own} == {
        name: grown.values(name, rows) for name in grown.own
    }


def test_no_traces_are_a_table_too() -> None:
    assert [] == TraceTable([]).rows(parse("")).tolist()
    assert {} == TraceTable([]).choices(parse("a=b"))


def test_query_with_a_wrong_expression_is_refused_where_it_is_read() -> None:
    with pytest.raises(FormulaError, match=r"'\(' is not a valid RE2 regular expression"):
        TABLE.rows(parse_query("test=~("))


def test_traces_are_divided_by_their_values() -> None:
    divided = TABLE.by_value("driver", np.array([3, 2, 1, 0]))

    assert {"avf": [1, 3], "rdma": [2], None: [0]} == {
        value: each.tolist() for value, each in divided.items()
    }
    assert {None: [0, 1]} == {
        value: each.tolist() for value, each in TABLE.by_value("nothing", np.array([0, 1])).items()
    }
    assert {} == TABLE.by_value("nothing", np.array([], dtype=np.intp))


def test_few_new_values_are_put_between_the_known_ones() -> None:
    known = [TraceKey.of(frame=f"{64 * 2**power}B") for power in range(20)]
    fresh = [TraceKey.of(frame="IMIX"), TraceKey.of(frame="100B")]

    grown = TraceTable(known).concatenate(TraceTable(fresh))

    assert ["64B", "100B", "128B"] == [choice.value for choice in grown.choices(parse(""))["frame"]][:3]
    assert [21] == grown.rows(parse("frame=100B")).tolist()
    assert [2] == grown.rows(parse("frame=256B")).tolist()
    assert "IMIX" == grown.choices(parse(""))["frame"][-1].value


def test_words_are_found_in_any_parameter_regardless_of_case() -> None:
    table = TraceTable([
        TraceKey.of(test="64B-ip4", testbed="2n-clx"),
        TraceKey.of(test="64b-l2", testbed="3n-skx"),
        TraceKey.of(test="imix-ip4"),
    ])  # fmt: skip

    assert [True, True, False] == table.search(["64b"]).tolist()
    assert [True, False, False] == table.search(["ip4", "clx"]).tolist()
    assert [False] * 3 == table.search(["ip4clx"]).tolist()
    assert [True] * 3 == table.search([]).tolist()
    assert {"imix-ip4": 1, "64B-ip4": 1} == table.count_values("test", table.search(["ip4"]))
    assert {} == table.count_values("nothing", table.search([]))
