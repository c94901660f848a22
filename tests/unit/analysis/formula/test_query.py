from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.formula import Query, Term, parse_query
from perftrend.errors import FormulaError

TERMS = st.builds(Term, st.text(min_size=1), st.text(), st.booleans(), st.booleans()) | st.builds(
    Term, st.text(min_size=1), st.text(), st.just(True), st.booleans(), st.booleans()
)


def matched(query: str, **parameters: str) -> bool:
    return parse_query(query).matches(parameters, lambda pattern, value: bool(re.search(pattern, value)))


def test_terms_are_read_with_their_marks() -> None:
    query = parse_query("test=64b&test=78b&driver=~^avf&cores!=1c&suite!=~(a|b)+$&frame?!=64B&nic?!=~^x")

    assert (
        Term("test", "64b"),
        Term("test", "78b"),
        Term("driver", "^avf", pattern=True),
        Term("cores", "1c", negated=True),
        Term("suite", "(a|b)+$", negated=True, pattern=True),
        Term("frame", "64B", negated=True, optional=True),
        Term("nic", "^x", negated=True, pattern=True, optional=True),
    ) == query.terms


def test_an_expression_is_kept_as_text() -> None:
    """Neither one that cannot be compiled nor one that blows up is looked into."""
    query = parse_query("a=~((((&b=~(x+x+)+y")

    assert ["((((", "(x+x+)+y"] == [term.value for term in query.terms]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", True),
        ("driver=avf", True),
        ("driver=rdma", False),
        ("driver=AVF", False),
        ("driver=rdma&driver=avf", True),
        ("driver=avf&frame=64b", True),
        ("driver=avf&frame=78b", False),
        ("driver!=rdma", True),
        ("driver!=avf", False),
        ("driver!=rdma&driver!=avf", False),
        ("driver=!avf", False),
        ("driver=~^a", True),
        ("driver=~v", True),
        ("driver=~^v", False),
        ("driver!=~^v", True),
        ("driver=~", True),
        ("driver=~^a&driver!=avf", False),
        ("cores=1c", False),
        ("cores!=1c", False),
        ("cores?!=1c", True),
        ("cores?!=~1", True),
        ("cores?!=1c&cores!=2c", False),
        ("cores?!=1c&cores=2c", False),
        ("driver?!=rdma", True),
        ("driver?!=avf", False),
        ("cores=~", False),
        ("frame=64b%26more", False),
    ],
)
def test_a_trace_fits_all_keys_and_one_value_of_each(query: str, *, expected: bool) -> None:
    assert expected is matched(query, driver="avf", frame="64b", metric="mrr")


def test_escapes_stand_for_what_means_something_else() -> None:
    assert matched("test=a%26b%22%25", test='a&b"%')
    assert matched("test=%21x", test="!x")
    assert matched("test=%7Ex", test="~x")
    assert matched("te%3Dst=a=b", **{"te=st": "a=b"})


def test_blanks_at_the_ends_are_written_so_that_they_stay() -> None:
    """Whoever takes a query from a field takes the blanks around it away."""
    query = Query((Term(" a", "b"), Term("c", "d ")))

    assert query == parse_query(str(query).strip())


def test_a_plus_is_a_plus() -> None:
    assert matched("test=~64b-.+mrr", test="64b-1c-mrr")
    assert not matched("test=a+b", test="a b")


@pytest.mark.parametrize(
    ("query", "position", "reason"),
    [
        ("a", 0, "expected key=value, key!=value or key=~regex; found 'a'"),
        ("=x", 0, "found '=x'"),
        ("!=x", 0, "found '!=x'"),
        ("a=b&", 4, "found nothing"),
        ("a=b&&c=d", 4, "found nothing"),
        ("a=%", 2, "a % is not followed by two hex digits"),
        ("a=50%&b=c", 4, "a % is not followed by two hex digits"),
        ("a=%FF", 2, "the escapes are not valid UTF-8"),
        ("b=c&a~=x", 5, "'~' is not allowed here; write %7E"),
        ('a="b"', 2, """'"' is not allowed here; write %22"""),
        ("a=b\n", 3, r"'\n' is not allowed here; write %0A"),
        ("a=\ud800", 2, r"'\ud800' is not allowed here; leave it out"),
    ],
)
def test_a_wrong_query_is_refused_where_it_is_wrong(query: str, position: int, reason: str) -> None:
    with pytest.raises(FormulaError) as caught:
        parse_query(query)

    assert position == caught.value.position
    assert reason in str(caught.value)


def test_500_terms_are_read_and_no_more() -> None:
    assert 500 == len(parse_query("&".join(["a=b"] * 500)).terms)
    with pytest.raises(FormulaError, match=r"character 2000: 501 terms are too many; write at most 500"):
        parse_query("&".join(["a=b"] * 501))


@given(st.lists(TERMS, max_size=5))
def test_every_query_reads_back_from_what_it_is_written_as(terms: list[Term]) -> None:
    query = Query(tuple(terms))

    assert query == parse_query(str(query))
    assert '"' not in str(query)


@given(st.text())
def test_no_text_raises_anything_else(text: str) -> None:
    position = 0
    try:
        parse_query(text)
    except FormulaError as error:
        position = error.position

    assert 0 <= position <= len(text)


@given(st.dictionaries(st.text(min_size=1), st.text(), min_size=1))
def test_a_trace_fits_the_query_of_its_own_parameters(parameters: dict[str, str]) -> None:
    query = Query(tuple(Term(key, value) for key, value in parameters.items()))
    changed = {key: f"{value}x" for key, value in parameters.items()}

    assert parse_query(str(query)).matches(parameters, lambda *_: False)
    assert not query.matches(changed, lambda *_: True)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", None),
        ("metric=mrr", None),
        ("testbed=a", {"a"}),
        ("testbed=a&metric=mrr&testbed=b", {"a", "b"}),
        ("testbed=a&testbed!=a", {"a"}),
        ("testbed!=a", None),
        ("testbed?!=a", None),
        ("testbed=~a", None),
        ("testbed=a&testbed=~b", None),
        ("testbed=%61", {"a"}),
    ],
)
def test_values_of_a_parameter_that_can_match(text: str, values: set[str] | None) -> None:
    assert values == parse_query(text).values_of("testbed")
