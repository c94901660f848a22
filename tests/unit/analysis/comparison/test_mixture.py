from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.comparison import Mixture
from perftrend.analysis.comparison.distributions import log_sum, normal_below


def mixture(*parts: tuple[float, float, float]) -> Mixture:
    weights, means, deviations = np.array(parts).T
    return Mixture.of(np.log(weights), means, deviations**2)


@pytest.mark.parametrize("score", [-8.0, -3.0, -0.5, 0.0, 0.5, 3.0, 8.0])
def test_normal_probabilities_are_those_of_the_standard_library(score: float) -> None:
    assert normal_below(np.array([score]))[0] == pytest.approx(math.erfc(-score / math.sqrt(2)) / 2, rel=2e-7)


@given(st.floats(-50, 50), st.floats(0.01, 20), st.floats(0.001, 0.999))
def test_quantile_of_one_part_is_that_of_the_normal_distribution(
    mean: float, deviation: float, probability: float
) -> None:
    expected = NormalDist(mean, deviation).inv_cdf(probability)

    assert mixture((1.0, mean, deviation)).quantile(probability) == pytest.approx(
        expected, abs=1e-4 * deviation
    )


@given(
    st.lists(st.tuples(st.floats(0.01, 1), st.floats(-50, 50), st.floats(0.01, 20)), min_size=1, max_size=6),
    st.floats(0.001, 0.999),
)
def test_quantile_has_its_probability_below_it(
    parts: list[tuple[float, float, float]], probability: float
) -> None:
    found = mixture(*parts)
    value = found.quantile(probability)

    assert found.below(value) == pytest.approx(probability, abs=1e-3)
    assert found.below(value) + found.above(value) == pytest.approx(1.0)


def test_mean_and_deviation_of_two_parts_by_hand() -> None:
    """Half at -1, half at 3, each with deviation 1: variance 1 + 4."""
    found = mixture((0.5, -1.0, 1.0), (0.5, 3.0, 1.0))

    assert 1.0 == pytest.approx(found.mean)
    assert math.sqrt(5) == pytest.approx(found.deviation)


def test_logarithms_are_summed_where_their_numbers_are_out_of_range() -> None:
    assert 5000 + math.log(3) == pytest.approx(float(log_sum(np.full(3, 5000.0))))
    assert -5000 + math.log(3) == pytest.approx(float(log_sum(np.full(3, -5000.0))))


def test_mixed_mixtures_have_the_weighed_probabilities() -> None:
    first, second = mixture((0.5, -3.0, 1.0), (0.5, 1.0, 2.0)), mixture((1.0, 4.0, 0.5))

    mixed = Mixture.combine([(0.3, first), (0.7, second), (0.0, mixture((1.0, 9.0, 9.0)))])

    for value in (-4.0, 0.0, 3.5, 6.0):
        expected = 0.3 * first.below(value) + 0.7 * second.below(value)
        assert expected == pytest.approx(mixed.below(value))
