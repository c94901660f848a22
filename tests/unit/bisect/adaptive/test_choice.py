import math
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from perftrend.bisect import State
from perftrend.bisect.adaptive.choice import Costs, _gain
from perftrend.model import Measured
from tests.unit.bisect.world import START, line


@pytest.mark.parametrize(
    ("distance", "bits"), [(0.0, 0.0), (0.1, 0.0018), (1.0, 0.161), (2.0, 0.486), (4.0, 0.913), (400.0, 1.0)]
)
def test_information_about_one_of_two_levels(distance: float, bits: float) -> None:
    """The capacity of a channel with two levels and normal noise, by numerical integration."""
    (gain,) = _gain(np.full((1, 2), 0.5), np.array([[0.0, distance]]), np.full((1, 2), 0.25), noise=0.75)

    assert bits == pytest.approx(gain / math.log(2), rel=0.15, abs=1e-4)


@given(some.lists(some.floats(0.01, 1), min_size=2, max_size=5), some.floats(0, 1e3))
def test_information_is_at_most_what_is_unknown(shares: list[float], distance: float) -> None:
    weights = np.array([shares]) / sum(shares)
    means = distance * np.arange(len(shares), dtype=float)[np.newaxis]

    (gain,) = _gain(weights, means, np.zeros_like(means), noise=1.0)

    assert 0 <= gain <= -(weights * np.log(weights)).sum() + 1e-9


def test_costs_are_those_of_the_steps_so_far() -> None:
    run = Measured("c0", START, START + timedelta(seconds=20))
    state = replace(State(line(3)), built={"c0": 300.0, "c1": 1.0, "c3": 400.0}, measured=(run,))

    assert Costs(300.0, 20.0) == Costs.of(state, Costs())
    assert Costs(600.0, 50.0) == Costs.of(State(line(3)), Costs())
    assert Costs(400.0, 20.0).considered_build_s == 20.0
