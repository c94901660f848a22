from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.report.scale import Scale, ticks


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
    ],
)
def test_ticks_are_round(low: float, high: float, expected: list[str]) -> None:
    assert expected == [f"{value:.{decimals}f}" for value, decimals in ticks(low, high, 6)]


@given(st.floats(0, 1e6), st.floats(1e-5, 1e6), st.integers(2, 12))
def test_ticks_are_within_and_not_too_many(low: float, span: float, most: int) -> None:
    found = [value for value, _ in ticks(low, low + span, most)]

    assert len(found) <= most
    assert all(low - span * 1e-6 <= value <= low + span * (1 + 1e-6) for value in found)
