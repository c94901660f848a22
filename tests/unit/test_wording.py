"""How numbers and names are written for people."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.wording import percent, plain, value


@pytest.mark.parametrize(
    ("number", "unit", "told"),
    [
        (12_345_678.0, "pps", "12.35 Mpps"),
        (1_000_000.0, "pps", "1.000 Mpps"),
        (812.0, "pps", "0.0008120 Mpps"),
        (999.94, "ms", "999.9 ms"),
        (999.96, "ms", "1000 ms"),
        (4_101_999.6, "lookups/s", "4102000 lookups/s"),
        (0.0, "ms", "0.000 ms"),
        (12.0, "", "12.00"),
        (math.nan, "ms", "\N{EN DASH}"),
        (math.inf, "pps", "\N{EN DASH}"),
    ],
)
def test_value_has_four_digits_that_matter(number: float, unit: str, told: str) -> None:
    assert told == value(number, unit)


@given(st.floats(min_value=-1e300, max_value=1e300))
def test_value_can_be_read_back_to_its_last_digit(number: float) -> None:
    text = value(number, "")

    assert math.isclose(float(text), number, rel_tol=5.1e-4)
    assert not text.endswith(".")


def test_change_that_rounds_to_nothing_has_no_sign() -> None:
    assert ["0.0 %", "0.0 %", "-0.1 %", "+12.5 %"] == [percent(x) for x in (-0.0004, 0.0, -0.0006, 0.125)]


@given(st.text())
def test_plain_text_can_be_written_and_moves_no_cursor(text: str) -> None:
    shown = plain(text)

    assert not [character for character in shown if ord(character) < 32 and character not in "\n\t"]
    assert shown == shown.encode().decode()
    assert len(shown) == len(text.replace("\r\n", "\n"))
