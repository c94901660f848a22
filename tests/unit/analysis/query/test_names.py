"""Names of traces in the documented form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.query import format_skia_name, parse_skia_name
from perftrend.errors import FormulaError
from perftrend.model import TraceKey


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
