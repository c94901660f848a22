"""The contents of a cell that compares two values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from perftrend.analysis.ratios import Ratios, Values, ratios

RATES = st.floats(min_value=1e-3, max_value=1e12)
ERRORS = st.floats(min_value=0.0, max_value=0.5)
FREEDOM = st.integers(min_value=0, max_value=300)
SIDES = st.lists(
    st.tuples(RATES, ERRORS, FREEDOM, RATES, ERRORS, FREEDOM, st.booleans()), min_size=1, max_size=20
)


def side(value: ArrayLike, error: Any = math.nan, freedom: Any = 0) -> Values:
    values = np.atleast_1d(np.asarray(value, dtype=float))
    return Values(
        values, np.broadcast_to(error, values.shape).astype(float), np.broadcast_to(freedom, values.shape)
    )


def compared(left: Values, right: Values, *, lower: bool = False) -> Ratios:
    return ratios(left, right, lower_is_better=np.full(left.value.shape, lower))


@pytest.mark.parametrize(
    ("left", "right", "signed", "plain"),
    [(3.0, 2.0, 1.5, 1.5), (2.0, 3.0, -1.5, 2 / 3), (2.0, 2.0, 1.0, 1.0)],
)
def test_cell_is_the_larger_by_the_smaller_and_its_sign_says_which(
    left: float, right: float, signed: float, plain: float
) -> None:
    found = compared(side(left), side(right))

    assert ([signed], [plain]) == (found.signed.tolist(), found.plain.tolist())


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_ratio_needs_two_values_above_zero(value: float) -> None:
    for found in (compared(side(value), side(1.0)), compared(side(1.0), side(value))):
        assert all(math.isnan(each[0]) for each in (found.plain, found.signed, found.gain, found.low))
        assert not found.is_noise[0]


def test_larger_is_better_or_worse_as_the_trace_says() -> None:
    assert compared(side(3.0), side(2.0)).gain[0] == pytest.approx(math.log(1.5))
    assert compared(side(3.0), side(2.0), lower=True).gain[0] == pytest.approx(-math.log(1.5))


def test_difference_within_the_noise_is_not_shown() -> None:
    """Two errors of 1 % make 1.4 % and 3.7 % with 99 % of certainty."""
    found = compared(side([1.03, 1.05], 0.01, 100), side([1.0, 1.0], 0.01, 100))

    assert [True, False] == found.is_noise.tolist()
    assert found.low[0] < 1.0 < found.high[0]
    assert 1.0 < found.low[1] < 1.05 < found.high[1]


def test_noise_of_one_side_alone_says_nothing() -> None:
    found = compared(side(2.0, 0.01, 9), side(1.0))

    assert math.isnan(found.low[0])
    assert not found.is_noise[0]


@given(SIDES)
def test_swapped_sides_mirror_the_cells(given_sides: list[tuple[Any, ...]]) -> None:
    columns = [np.array(column) for column in zip(*given_sides, strict=True)]
    left, right = Values(*columns[:3]), Values(*columns[3:6])
    forth = ratios(left, right, lower_is_better=columns[6])
    back = ratios(right, left, lower_is_better=columns[6])
    differ = left.value != right.value

    np.testing.assert_allclose(forth.signed[differ], -back.signed[differ])
    np.testing.assert_allclose(forth.signed[~differ], back.signed[~differ])
    np.testing.assert_allclose(forth.plain * back.plain, 1.0)
    np.testing.assert_allclose(forth.gain, -back.gain, atol=1e-12)
    np.testing.assert_allclose(forth.low, 1 / back.high)
    assert np.array_equal(forth.is_noise, back.is_noise)


@given(SIDES)
def test_size_of_a_cell_is_one_at_least(given_sides: list[tuple[Any, ...]]) -> None:
    columns = [np.array(column) for column in zip(*given_sides, strict=True)]
    found = ratios(Values(*columns[:3]), Values(*columns[3:6]), lower_is_better=columns[6])

    assert (np.abs(found.signed) >= 1.0).all()
    assert ((found.signed > 0) == (columns[0] >= columns[3])).all()
