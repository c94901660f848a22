from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.formula import FUNCTIONS, ArgumentKind, Call, Makes, Number, Query, Term, Text, parse
from perftrend.errors import FormulaError


def test_a_formula_is_a_tree_of_calls() -> None:
    tree = parse('norm(filter("config=8888"), 0.5)')

    assert Call("norm", (Call("filter", (Text("config=8888"),)), Number(0.5))) == tree


def test_a_tree_knows_where_its_parts_were_written() -> None:
    tree = parse(' norm( filter("a=b"),\n 2 )')
    inner, number = tree.arguments
    assert isinstance(inner, Call)

    assert [1, 7, 14, 23] == [tree.position, inner.position, inner.arguments[0].position, number.position]


@pytest.mark.parametrize(
    "formula",
    [
        'norm(filter("config=8888"))',
        'norm(filter("#54"))',
        'shortcut("54")',
        'count(filter(""))',
        'sum(fill(filter("config=memory&sub_result=bytes")))',
        'ratio(ave(fill(filter("name=a&sub_result=ms"))), ave(fill(filter("name=a&sub_result=ops"))))',
    ],
)
def test_documented_formulas_are_read_and_written_alike(formula: str) -> None:
    assert formula == str(parse(formula))


def test_blanks_and_line_breaks_do_not_matter() -> None:
    spread = 'ratio (\n\tave( filter("a=b") ) ,\r\n  ave(filter("a=c")) )\n'

    assert parse('ratio(ave(filter("a=b")),ave(filter("a=c")))') == parse(spread)


@pytest.mark.parametrize(
    ("formula", "character", "reason"),
    [
        ('ave(filter("")', 15, "expected , or ), but found the end"),
        ("ave", 4, "expected a ( after 'ave', but found the end"),
        ('ave filter("")', 5, "expected a ( after 'ave', but found 'filter'"),
        ('ave(filter("a=b"', 17, "expected , or ), but found the end"),
        ('ave(filter("") filter(""))', 16, "expected , or ), but found 'filter'"),
        ('filter(")', 8, 'this string is never closed; write a " at its end'),
        ('filter("a=b)', 8, 'this string is never closed; write a " at its end'),
        ('"config=8888"', 1, 'expected a function such as filter("test=x"), but found a string'),
        ('("config=gpu")', 1, "expected a function such as filter(\"test=x\"), but found '('"),
        ("{}", 1, "expected a function such as filter(\"test=x\"), but found '{'"),
        ("", 1, 'expected a function such as filter("test=x"), but found the end'),
        ("7", 1, "expected a function such as filter(\"test=x\"), but found '7'"),
        ('ave(filter("")) ave', 17, "expected the end, but found 'ave'"),
        ('ave(filter(""),)', 16, "expected a function such as filter(\"test=x\"), but found ')'"),
        (
            "filter('a=b')",
            8,
            'expected a function such as filter("test=x"), but found "\'"; write strings between plain',
        ),
        ("filter(2)", 8, 'filter: expected a string, but found a number; write filter("query")'),
        ('filter(filter(""))', 8, 'filter: expected a string, but found a function; write filter("query")'),
        ('norm("foo")', 6, "norm: expected rows, but found a string; write norm(rows[, smallest])"),
        (
            'norm(filter(""), "foo")',
            18,
            "norm: expected a number, but found a string; write norm(rows[, smallest])",
        ),
        ('norm(filter(""), filter(""))', 18, "norm: expected a number, but found a function"),
        ('norm(filter(""), -0.1)', 18, "norm: -0.1 is less than 0"),
        ('norm(filter(""), 1e999)', 18, "'1e999' is too large a number"),
        ("ave(2)", 5, "ave: expected rows, but found a number; write ave(rows)"),
        ("fill()", 1, "fill has no arguments; write fill(rows)"),
        ('ave(filter(""), filter(""))', 1, "ave has 2 arguments; write ave(rows)"),
        ('ratio(filter(""))', 1, "ratio has 1 argument; write ratio(a, b)"),
        ('avrg(filter(""))', 1, "no function is named 'avrg'; did you mean 'avg'?"),
        ('SUM(filter(""))', 1, "no function is named 'SUM'; did you mean 'sum'?"),
        ('filter("a=b&c")', 13, "expected key=value, key!=value or key=~regex; found 'c'"),
        ('filter("#5 4")', 10, "expected the id of a shortcut, of letters, digits, - and _, but found '5 4'"),
        ('filter("#5&a=b")', 10, "expected the id of a shortcut"),
        ('shortcut("../5")', 11, "expected the id of a shortcut"),
        ('filter("a=\u202e")', 11, r"'\u202e' is not allowed in a string; write it as %XX"),
        ('ave(filter(""))\x00', 16, r"expected the end, but found '\x00'"),
        ("ave(,a=b,)", 5, "expected a function such as filter(\"test=x\"), but found ','"),
    ],
)
def test_an_error_tells_where_and_what_was_expected(formula: str, character: int, reason: str) -> None:
    with pytest.raises(FormulaError) as caught:
        parse(formula)

    assert f"formula, character {character}: {reason}" in str(caught.value)
    assert character - 1 == caught.value.position


def test_twenty_calls_within_calls_are_read_and_no_more() -> None:
    def nested(depth: int) -> str:
        return "fill(" * (depth - 1) + 'filter("")' + ")" * (depth - 1)

    assert nested(20) == str(parse(nested(20)))
    with pytest.raises(FormulaError, match="more than 20 calls within calls"):
        parse(nested(21))


def test_a_hundred_calls_are_read_and_no_more() -> None:
    def tree(depth: int) -> str:
        return 'ave(filter(""))' if depth == 0 else f"ratio({tree(depth - 1)}, {tree(depth - 1)})"

    assert tree(4) == str(parse(tree(4)))
    with pytest.raises(FormulaError, match="more than 100 calls; write a simpler formula"):
        parse(tree(6))


def test_a_long_text_is_refused_before_it_is_read() -> None:
    with pytest.raises(FormulaError, match="10001 characters are too many; write at most 10000"):
        parse("(" * 10_001)


@pytest.mark.parametrize("piece", ["(", "fill(", '"', "1", "1e", "a", "&", '""', "1.", ")", ",", " "])
def test_hostile_repetition_is_refused_in_one_line(piece: str) -> None:
    with pytest.raises(FormulaError) as caught:
        parse((piece * 10_000)[:10_000])

    assert len(str(caught.value)) < 200
    assert "\n" not in str(caught.value)


@given(st.text(max_size=60))
def test_no_text_raises_anything_else(text: str) -> None:
    position = 0
    try:
        parse(text)
    except FormulaError as error:
        position = error.position

    assert 0 <= position <= len(text)


@given(st.lists(st.sampled_from(['"', "a=b", "ave", "filter", "norm", "(", ")", ",", " ", "1", "@", "#5"])))
def test_no_mixture_of_tokens_raises_anything_else(tokens: list[str]) -> None:
    text = "".join(tokens)
    position = 0
    try:
        assert parse(text) == parse(str(parse(text)))
    except FormulaError as error:
        position = error.position

    assert 0 <= position <= len(text)


TERMS = st.builds(Term, st.text(min_size=1, max_size=5), st.text(max_size=8), st.booleans(), st.booleans())
QUERIES = st.lists(TERMS, max_size=3).map(lambda terms: Query(tuple(terms)))


def calls(inner: st.SearchStrategy[Call]) -> st.SearchStrategy[Call]:
    def of(name: str) -> st.SearchStrategy[Call]:
        strategies: dict[ArgumentKind, st.SearchStrategy[Any]] = {
            ArgumentKind.ROWS: inner,
            ArgumentKind.ROW: inner,
            ArgumentKind.NUMBER: st.floats(0, allow_nan=False, allow_infinity=False).map(Number),
        }
        taken = [strategies[each.kind] for each in FUNCTIONS[name].parameters]
        least = FUNCTIONS[name].least_arguments
        full = st.tuples(*taken)
        return st.builds(lambda given, cut: Call(name, given[: max(least, cut)]), full, st.integers(0, 2))

    names = [each.name for each in FUNCTIONS.values() if each.makes is not Makes.FOUND]
    return st.sampled_from(names).flatmap(of)


FOUND = st.one_of(
    QUERIES.map(lambda query: Call("filter", (Text(str(query)),))),
    st.from_regex(r"[A-Za-z0-9_-]{1,8}", fullmatch=True).map(lambda name: Call("shortcut", (Text(name),))),
    st.from_regex(r"#[A-Za-z0-9_-]{1,8}", fullmatch=True).map(lambda name: Call("filter", (Text(name),))),
)


@given(st.recursive(FOUND, calls, max_leaves=6))
def test_every_tree_reads_back_from_what_it_is_written_as(tree: Call) -> None:
    assert tree == parse(str(tree))
