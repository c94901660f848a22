"""The inequalities that the pruning rules rest on; docs/method/partition-formulas.rst proves them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.description import FORMULAS, Floats, formula_named, size_bits
from perftrend.analysis.mdl.cost_terms import GROWTH, Terms, terms_of
from perftrend.analysis.mdl.pruning import gain

MAXIMUM = 8191.0
samples = st.lists(st.floats(min_value=0.0, max_value=MAXIMUM), min_size=1, max_size=12).map(np.array)
formulas = st.sampled_from(sorted(FORMULAS))


def terms_named(name: str) -> Terms:
    return terms_of(formula_named(name), maximum=MAXIMUM, low=0.0, samples=100)


def spread_bits(group: Floats, tail: float) -> float:
    """E': what the samples cost, without D and without the tail of the deviation's code."""
    s = float((group - group[0]).std())
    return (group.size - 2 + 2 * tail) * math.log2(s + 1)


@pytest.mark.parametrize("name", FORMULAS)
def test_terms_are_the_formula_regrouped(name: str) -> None:
    chosen, terms = formula_named(name), terms_named(name)
    constants = terms.constants
    for group in ([5.0], [1.0, 7.0], [3.0, 4.0, 4.5, 100.0]):
        s, n, tail = float(np.std(group)), len(group), constants.tail
        regrouped = terms.sizes[n] + (n - 2 + tail) * math.log2(s + 1) + math.log2(tail * s + 1 + tail)

        assert chosen.alone_bits(np.array([n]), np.array([s]), MAXIMUM)[0] == pytest.approx(regrouped)


@pytest.mark.parametrize("name", FORMULAS)
def test_norm_of_a_predecessor_is_the_formula_s(name: str) -> None:
    chosen, constants = formula_named(name), terms_named(name).constants
    means = np.array([0.0, 1.0, 4000.0, MAXIMUM])
    norm = np.log2((constants.square * means + constants.linear) * means + constants.constant)

    np.testing.assert_allclose(chosen.norm_bits(means, MAXIMUM), norm, rtol=1e-12)
    assert np.ptp(norm) <= constants.span + 1e-12
    assert np.all(np.abs(np.diff(norm)) <= constants.slope * np.diff(means) + 1e-12)


def test_each_further_sample_costs_at_least_the_growth() -> None:
    table = size_bits(8192)

    assert np.diff(table[1:]).min() >= GROWTH


@given(samples, samples, formulas)
def test_two_groups_spread_no_more_than_the_one_that_they_make(
    first: Floats, second: Floats, name: str
) -> None:
    tail = terms_named(name).constants.tail
    together = spread_bits(np.concatenate([first, second]), tail)
    # A sample alone spreads nothing; the formula's exponent would say otherwise for jumpavg-0.1.
    apart = sum(spread_bits(group, tail) if group.size > 1 else 0.0 for group in (first, second))

    assert together >= apart - 1e-6


@given(samples, samples, st.floats(0.0, 1.0), st.floats(0.0, 1.0), formulas)
def test_block_adds_at_least_its_gain(
    group: Floats, block: Floats, size_share: float, variance_share: float, name: str
) -> None:
    tail = terms_named(name).constants.tail
    before = spread_bits(group, tail) if group.size > 1 else 0.0
    added = spread_bits(np.concatenate([group, block]), tail) - before
    squares = float(block.size * (block - block[0]).var())
    least = gain(
        size_share * group.size, variance_share * group.var(), float(block.size), squares, 2 * (1 - tail)
    )

    assert added >= least - 1e-6
