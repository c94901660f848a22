from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perftrend.scale import Scale, padded_range, ticks

LARGEST, SMALLEST = sys.float_info.max, 5e-324
finite = st.floats(allow_nan=False, allow_infinity=False)


def test_value_lies_between_its_neighbours() -> None:
    scale = Scale(10.0, 20.0, 340.0, 40.0)

    assert [340.0, 190.0, 40.0, 10.0] == [scale(value) for value in (10, 15, 20, 21)]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 10.0, ["0", "2", "4", "6", "8", "10"]),
        (12.21, 12.44, ["12.25", "12.30", "12.35", "12.40"]),
        (0.0, 88.0, ["0", "20", "40", "60", "80"]),
        (0.0, 1300.0, ["0", "500", "1000"]),
        (9.11, 9.17, ["9.12", "9.14", "9.16"]),
        (-2e-8, 2e-8, ["-2e-8", "-1e-8", "0", "1e-8", "2e-8"]),
        (1e12, 1.00002e12, ["1.000000e+12", "1.000005e+12", "1.000010e+12", "1.000015e+12", "1.000020e+12"]),
    ],
)
def test_ticks_are_round(low: float, high: float, expected: list[str]) -> None:
    assert expected == [tick.text for tick in ticks(low, high, 6)]


@example(0.0, SMALLEST, 9)
@example(-LARGEST, LARGEST, 9)
@given(finite, finite, st.integers(2, 12))
def test_ticks_are_within_and_not_too_many(one: float, other: float, most: int) -> None:
    low, high = min(one, other), max(one, other)

    found = [tick.value for tick in ticks(low, high, most)]

    slack = 1e-6 * high - 1e-6 * low
    assert len(found) <= most
    assert all(low - slack <= value <= high + slack for value in found)


@example(1.0, 1.0000000000000002, 7)
@example(9.1, 9.2, 5)
@example(-LARGEST, LARGEST, 9)
@example(0.0, SMALLEST, 9)
@given(finite, finite, st.integers(2, 12))
def test_ticks_have_different_short_texts(one: float, other: float, most: int) -> None:
    texts = [tick.text for tick in ticks(min(one, other), max(one, other), most)]

    assert len(texts) == len(set(texts))
    assert all(len(text) <= 25 for text in texts)


def test_ends_that_are_equal_have_no_ticks() -> None:
    assert [] == ticks(5.0, 5.0, 9)


@example(-LARGEST, LARGEST)
@example(0.0, SMALLEST)
@given(finite, finite)
def test_ends_lie_at_the_edges(one: float, other: float) -> None:
    low, high = padded_range([one, other], least_span=0.04)
    scale = Scale(low, high, 340.0, 40.0)

    assert [340.0, 40.0] == [scale(low), scale(high)] == scale(np.array([low, high])).tolist()
    assert 40.0 <= scale(one) <= 340.0


def test_range_is_widened_around_its_middle() -> None:
    assert (9.0, 11.0) == padded_range([10.0, 10.1, 9.9], least_span=0.2)
    assert (5.0, 15.0) == padded_range([5.0, 15.0], least_span=0.2)
    assert (-1.0, 1.0) == padded_range([0.0], least_span=0.2)
