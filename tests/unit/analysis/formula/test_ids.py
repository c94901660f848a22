from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.formula import (
    CalculatedId,
    FormulaId,
    NormalId,
    format_key,
    parse,
    parse_key,
    parse_stored_ids,
    parse_trace_id,
    row_id,
)
from perftrend.errors import FormulaError
from perftrend.model import TraceKey

KEYS = st.dictionaries(st.text(min_size=1), st.text(), min_size=1).map(
    lambda parameters: TraceKey.of(**parameters)
)
KEY = TraceKey.of(testbed="2n-clx", test="64b-1c-ip4", metric="mrr")


def test_a_normal_trace_is_named_by_its_parameters_in_order() -> None:
    assert ",metric=mrr,test=64b-1c-ip4,testbed=2n-clx," == format_key(KEY)
    assert ",a=2,b=1," == format_key(TraceKey((("b", "1"), ("a", "2"))))


@given(KEYS)
def test_every_trace_has_one_name_that_reads_back(key: TraceKey) -> None:
    name = format_key(key)

    assert key == parse_key(name)
    assert name.isprintable()


@pytest.mark.parametrize("key", [TraceKey(()), TraceKey.of(**{"": "x"}), TraceKey.of(a="\ud800")])
def test_what_is_no_trace_has_no_name(key: TraceKey) -> None:
    with pytest.raises(FormulaError):
        format_key(key)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (",metric=mrr,test=a b[1](c),", NormalId),
        ("!,metric=mrr,", CalculatedId),
        ("!norm(,metric=mrr,)", CalculatedId),
        ("!fill(norm(,metric=mrr,test=x(y)),, 0.5))", CalculatedId),
        ('@norm(filter("config=8888"))', FormulaId),
        ('@norm(filter("#54"))', FormulaId),
        ('@ave(shortcut("54"))', FormulaId),
    ],
)
def test_the_three_forms_are_told_apart(text: str, kind: type) -> None:
    trace_id = parse_trace_id(text)

    assert isinstance(trace_id, kind)
    assert text == str(trace_id)


@pytest.mark.parametrize(
    ("text", "character", "reason"),
    [
        ("", 1, "expected a name such as ,test=x,testbed=y, but found the end"),
        ("foo:bar:baz", 1, "expected a name such as ,test=x,testbed=y, but found 'foo:bar:baz'"),
        (",", 2, "expected key=value and a comma"),
        (",a=b", 5, "expected the comma that ends a parameter"),
        (",a=b,c", 6, "expected key=value and a comma, or the end; found 'c'"),
        (",a=b,,", 6, "expected key=value and a comma, or the end; found ','"),
        (",=b,", 2, "a parameter needs a name; write it before the ="),
        (",b=1,a=2,", 6, "parameters must be in the order of their names; write 'a' before 'b'"),
        (",a=1,a=2,", 6, "the parameter 'a' occurs twice; remove one"),
        (",a=b=c,", 5, "'=' is not allowed here; write %3D"),
        (",a=50%,", 6, "a % is not followed by two hex digits; write %25 for a percent sign"),
        (",a=%FF,", 4, "the escapes are not valid UTF-8; write each byte as %XX"),
        (",a=\u202eb,", 4, r"'\u202e' is not allowed here; write %E2%80%AE"),
        ("!", 2, "expected a function"),
        ("!,a=b,)", 7, "expected the end, but found ')'"),
        ("!norm(,a=b)", 12, "expected the comma that ends a parameter"),
        ("!norm(,a=b,", 12, "expected , or ), but found the end"),
        ("!sum(,a=b,)", 2, "expected the name of a normal trace, or a function of each row"),
        ('!norm(filter("a=b"))', 7, "expected the name of a normal trace, or a function of each row"),
        ("!nrm(,a=b,)", 2, "no function is named 'nrm'; did you mean 'norm'?"),
        ("@", 2, "expected a function"),
        ("@{}", 2, "expected a function"),
        ("@norm(,a=b,)", 7, "expected a function"),
        ("," + "a" * 10_000, 10_001, "10001 characters are too many"),
    ],
)
def test_a_wrong_id_is_refused_where_it_is_wrong(text: str, character: int, reason: str) -> None:
    with pytest.raises(FormulaError) as caught:
        parse_trace_id(text)

    assert f"trace id, character {character}: {reason}" in str(caught.value)
    assert character - 1 == caught.value.position


@given(st.text(alphabet='!@,=ab()%0norm"filter', max_size=30) | st.text(max_size=20))
def test_no_text_raises_anything_else(text: str) -> None:
    position = 0
    try:
        assert parse_trace_id(text) == parse_trace_id(str(parse_trace_id(text)))
    except FormulaError as error:
        position = error.position

    assert 0 <= position <= len(text)


@given(
    KEYS, st.lists(st.sampled_from(["norm({})", "fill({})", "norm({}, 0.5)", "trace_ave({})"]), max_size=3)
)
def test_every_calculated_name_reads_back(key: TraceKey, functions: list[str]) -> None:
    name = format_key(key)
    for function in functions:
        name = function.replace("{}", name)

    assert f"!{name}" == str(parse_trace_id(f"!{name}"))
    assert (f"!{name}" if functions else name) == row_id(name)


def test_a_shortcut_keeps_normal_traces_and_formulas_once() -> None:
    texts = [",a=1,", '@ave(filter("a=1"))', "!norm(,a=1,)", ",a=1,", '@ave( filter("a=1") )']

    assert (NormalId(TraceKey.of(a="1")), FormulaId(parse('ave(filter("a=1"))'))) == parse_stored_ids(texts)


def test_rows_of_formulas_are_no_calculated_traces() -> None:
    assert '@norm(ave(filter("a=,b")))' == row_id('norm(ave(filter("a=,b")))')
