from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jumpavg import BitCountingStats

from perftrend.analysis.comparison import compare_by_mdl
from perftrend.errors import SettingsError
from perftrend.model import Better, Outcome

rates = st.lists(st.floats(1.0, 1e7), min_size=1, max_size=8)


def test_bits_of_three_groups_as_worked_by_hand() -> None:
    """One sample each, 4 and 7, so M = 7; jumpavg-0.1 with unit 1.

    parent:   log2(1 * 2) + log2(7 + 1)                                    = 4
    current:  log2(1 * 2) + log2(7 * 8 / (3 + 1))                          = 1 + log2(14)
    combined: log2(2 * 3) + log2(8) + log2(8) + log2(2 π½ / Γ(½)) = log2(6) + 7
    """
    found = compare_by_mdl([4.0], [7.0])

    assert found.parent.bits == pytest.approx(4.0)
    assert found.current.bits == pytest.approx(1 + math.log2(14))
    assert found.combined.bits == pytest.approx(math.log2(6) + 7)
    assert found.shorter_by_bits == pytest.approx(math.log2(6) + 2 - math.log2(14))
    assert found.difference_percent == pytest.approx(75.0)


@given(rates, rates)
def test_newer_formula_counts_the_bits_of_jumpavg(parent: list[float], current: list[float]) -> None:
    top = max(*parent, *current)
    unit = top / 8191
    first = BitCountingStats.for_runs_and_params(parent, top, unit)
    second = BitCountingStats.for_runs_and_params(current, top, unit, prev_avg=first.avg)
    both = BitCountingStats.for_runs_and_params(parent + current, top, unit)

    found = compare_by_mdl(parent, current, formula="jumpavg-0.4")

    expected = [first.bits, second.bits, both.bits]
    counted = [found.parent.bits, found.current.bits, found.combined.bits]
    assert expected == pytest.approx(counted, rel=1e-6, abs=1e-4)


@pytest.mark.parametrize(
    ("current", "better", "expected"),
    [
        ([90.0, 90.1, 89.9], Better.HIGHER, Outcome.REGRESSION),
        ([90.0, 90.1, 89.9], Better.LOWER, Outcome.PROGRESSION),
        ([110.0, 110.1, 109.9], Better.HIGHER, Outcome.PROGRESSION),
        ([110.0, 110.1, 109.9], Better.LOWER, Outcome.REGRESSION),
        ([100.0, 100.1, 99.9], Better.HIGHER, Outcome.NORMAL),
    ],
)
def test_classification_follows_the_shorter_description(
    current: list[float], better: Better, expected: Outcome
) -> None:
    found = compare_by_mdl([1e4, 1.001e4, 0.999e4], [100 * x for x in current], better=better)

    assert expected == found.classification
    assert found.are_two == (expected is not Outcome.NORMAL)


def test_samples_keep_the_order_of_measuring() -> None:
    found = compare_by_mdl([3.0, 1.0, math.nan, 2.0], [5.0, 4.0])

    assert (3.0, 1.0, 2.0) == found.parent.samples
    assert (3.0, 1.0, 2.0, 5.0, 4.0) == found.combined.samples
    assert (2.0, 4.5, 3.0) == (found.parent.average, found.current.average, found.combined.average)


def test_zeros_are_normal_and_cost_nothing() -> None:
    found = compare_by_mdl([0.0] * 5, [0.0] * 3)

    assert Outcome.NORMAL == found.classification
    assert 0.0 == found.combined.bits
    assert 0.0 == found.difference_percent


def test_parent_that_forwarded_nothing_has_no_percentage() -> None:
    found = compare_by_mdl([0.0] * 5, [1e5, 1.001e5, 0.999e5, 1e5, 1e5])

    assert Outcome.PROGRESSION == found.classification
    assert math.inf == found.difference_percent


def test_negative_values_are_told_with_their_signs_turned() -> None:
    turned, upright = compare_by_mdl([-1e4] * 3, [-9e3] * 3), compare_by_mdl([1e4] * 3, [9e3] * 3)

    assert turned.current.bits == pytest.approx(upright.current.bits)
    assert Outcome.PROGRESSION == turned.classification
    assert turned.difference_percent == pytest.approx(10.0)


@pytest.mark.parametrize(("parent", "current"), [([], [1.0]), ([1.0], []), ([], []), ([math.nan], [1.0])])
def test_build_without_a_value_failed(parent: list[float], current: list[float]) -> None:
    found = compare_by_mdl(parent, current)

    assert Outcome.FAILED == found.classification
    assert math.isnan(found.difference_percent)
    assert not found.are_two


def test_unknown_formula_is_refused() -> None:
    with pytest.raises(SettingsError, match="no description length formula"):
        compare_by_mdl([1.0], [1.0], formula="jumpavg-0.2")
