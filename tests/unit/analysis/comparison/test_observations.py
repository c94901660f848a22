from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.comparison import Observation, levels

E = math.e


def test_level_is_the_mean_logarithm_in_per_cent() -> None:
    known = levels([Observation(0, 5.0, (1.0, E)), Observation(1, 6.0, (E, E)), Observation(1, 7.5, (E, E))])

    assert [-50.0, 0.0, 0.0] == pytest.approx(known.y.tolist())
    assert [0.0, 1.0, 2.5] == known.at_h.tolist()
    assert [0, 1, 1] == known.builds.tolist()


def test_variance_within_is_pooled_with_one_per_cent_and_shared_out_by_hand() -> None:
    """Logarithms -1, 1 and 0, 0, 0 per cent: squares 2, freedom 1 + 2; (1 + 2) / (1 + 3) = 3/4."""
    known = levels([Observation(0, 0.0, (math.exp(-0.01), math.exp(0.01))), Observation(1, 0.0, (1.0,) * 3)])

    assert [3 / 8, 1 / 4] == pytest.approx(known.errors.tolist())


def test_failed_measurements_are_left_out_and_the_rest_keeps_its_positions() -> None:
    known = levels(
        [Observation(0, 0.0, ()), Observation(0, 1.0, (2.0, math.nan)), Observation(1, 2.0, (2.0,))]
    )

    assert [1, 2] == known.positions.tolist()
    assert [1.0, 1.0] == pytest.approx(known.errors.tolist())


def test_values_that_can_be_zero_are_relative_to_the_median_of_the_oldest_build() -> None:
    known = levels([Observation(0, 0.0, (-4.0,)), Observation(0, 0.0, (-4.0,)), Observation(1, 0.0, (0.0,))])

    assert not known.logarithmic
    assert [0.0, 0.0, 100.0] == known.y.tolist()
    assert 0.5 == known.relative(50.0)


def test_reference_that_is_next_to_nothing_gives_way_to_the_largest_sample() -> None:
    known = levels(
        [Observation(0, 0.0, (0.0, 1e-300)), Observation(1, 0.0, (-8.0,)), Observation(1, 0.0, (4.0,))]
    )

    assert [0.0, -100.0, 50.0] == known.y.tolist()


@pytest.mark.parametrize("samples", [(0.0, 0.0), ()])
def test_nothing_but_zeros_or_failures_is_no_error(samples: tuple[float, ...]) -> None:
    known = levels([Observation(0, 0.0, samples), Observation(1, 1.0, samples)])

    assert [0.0] * len(known) == known.y.tolist()


@given(st.floats(-0.9, 10.0), st.booleans())
def test_ratio_becomes_a_step_and_a_ratio_again(ratio: float, positive: bool) -> None:
    known = levels([Observation(0, 0.0, (1.0 if positive else -1.0,))])

    assert known.relative(known.step(ratio)) == pytest.approx(ratio, abs=1e-12)


def test_without_leaves_out_the_given_ones() -> None:
    known = levels([Observation(build, build, (1.0 + build,)) for build in range(4)])

    rest = known.without([1, 2])

    assert [0, 3] == rest.positions.tolist()
    assert np.array_equal(known.y[[0, 3]], rest.y)


def test_best_samples_stand_for_the_averages_if_there_are_several() -> None:
    observations = [
        Observation(0, 0.0, (1.0, E)),
        Observation(0, 1.0, ()),
        Observation(1, 2.0, (E, math.nan, 1.0)),
        Observation(1, 3.0, (1.0,)),
    ]
    by_average = levels(observations)

    highest, lowest = (by_average.by_best(observations, higher=higher) for higher in (True, False))

    assert highest is not None
    assert lowest is not None
    assert [100.0, 100.0, 0.0] == pytest.approx((highest.y + highest.middle).tolist())
    assert [0.0, 0.0, 0.0] == pytest.approx((lowest.y + lowest.middle).tolist())
    assert by_average.positions.tolist() == highest.positions.tolist()


@pytest.mark.parametrize("samples", [(2.0,), (-1.0, 2.0)])
def test_best_samples_tell_no_more_of_one_or_without_a_logarithm(samples: tuple[float, ...]) -> None:
    observations = [Observation(0, 0.0, samples), Observation(1, 0.0, samples)]

    assert levels(observations).by_best(observations, higher=True) is None
