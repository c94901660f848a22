"""How reports write numbers, and lines that somebody else wrote."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.report.prose import excerpt, format_count, line, share, span


@pytest.mark.parametrize(
    ("ratio", "told"),
    [(0.031, "3.1 %"), (-0.1, "10 %"), (0.0999, "10 %"), (0.00042, "0.042 %"), (0.0, "0 %")],
)
def test_share_has_two_digits_and_no_sign(ratio: float, told: str) -> None:
    assert told == share(ratio)


@pytest.mark.parametrize(
    ("ratios", "told"),
    [
        ([], ""),
        ([math.nan, math.inf], ""),
        ([-0.052, 0.031], "3.1 to 5.2 %"),
        ([0.1, 0.1001], "10 %"),
        ([math.nan, -0.5], "50 %"),
    ],
)
def test_span_goes_from_the_smallest_to_the_largest(ratios: list[float], told: str) -> None:
    assert told == span(ratios)


def test_count_has_its_word() -> None:
    assert ["0 rounds", "1 round", "2 rounds"] == [format_count(number, "round") for number in range(3)]


@given(st.text())
def test_line_is_one_without_control_characters(text: str) -> None:
    told = line(text)

    assert len(told.splitlines()) <= 1
    assert told == line(told)


def test_excerpt_leaves_out_empty_lines_and_cuts_long_ones() -> None:
    told = excerpt(["a\tb", "", "  ", "\x1b[31mred", "x" * 500])

    assert ["a    b", "\N{REPLACEMENT CHARACTER}[31mred", "x" * 200] == told
