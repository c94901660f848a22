import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from perftrend.bisect.adaptive import Adaptive, posterior
from perftrend.bisect.adaptive.candidates import Suspects
from perftrend.bisect.adaptive.evidence import Hypotheses, Likelihood
from perftrend.bisect.adaptive.posterior import Belief
from perftrend.bisect.simulator import (
    HistoryModel,
    SimulatedHistory,
    SimulatedTestbed,
    bisect,
)

CLASSES = 4
FIRST, SECOND = np.triu_indices(CLASSES, 1)
PRIOR = Hypotheses(0.0, np.zeros(CLASSES), np.zeros(FIRST.size), FIRST, SECOND)
RATIOS = some.lists(some.floats(-4, 4), min_size=CLASSES + FIRST.size, max_size=CLASSES + FIRST.size)


def likelihood(ratios: list[float]) -> Likelihood:
    return Likelihood(0.0, np.array(ratios[:CLASSES]), np.array(ratios[CLASSES:]))


@given(some.lists(RATIOS, min_size=2, max_size=4))
def test_joint_ratio_is_that_of_all_ways_in_which_tests_may_be_affected(drawn: list[list[float]]) -> None:
    """Each test is affected by each change or not; at least one by each of them."""
    tests = [likelihood(each) for each in drawn]
    g, count = posterior.AFFECTED, len(tests)
    some_affected = 1 - (1 - g) ** count

    one, two = np.zeros(CLASSES), np.zeros(FIRST.size)
    for ways in np.ndindex(*[4] * count):
        by_first, by_second = [way in {1, 3} for way in ways], [way in {2, 3} for way in ways]
        share = math.prod(g if hit else 1 - g for hit in (*by_first, *by_second))
        gain = sum(
            (
                [0.0, test.one[FIRST], test.one[SECOND], test.two][way]
                for test, way in zip(tests, ways, strict=True)
            ),
            np.zeros(FIRST.size),
        )
        if any(by_first) and any(by_second):
            two += share * np.exp(gain) / some_affected**2
    for ways in np.ndindex(*[2] * count):
        share = math.prod(g if way else 1 - g for way in ways)
        if any(ways):
            one += (
                share
                * np.exp(sum(way * test.one for test, way in zip(tests, ways, strict=True)))
                / some_affected
            )

    assert np.log(one) == pytest.approx(posterior._one(tests))
    assert np.log(two) == pytest.approx(posterior._two(tests, PRIOR))


def test_one_test_alone_is_affected() -> None:
    only = likelihood([0.5] * (CLASSES + FIRST.size))

    assert posterior._one([only]).tolist() == only.one.tolist()
    assert posterior._two([only], PRIOR).tolist() == only.two.tolist()


def test_shown_suspicion_is_weaker_than_that_of_the_search() -> None:
    history = SimulatedHistory(HistoryModel(size=16, changes=(4.0,)), (1,))
    _, state = bisect(Adaptive(maximum_measurements=9), SimulatedTestbed(history))

    suspects = Suspects.of(state.history, [each.commit for each in state.measured], state.broken)
    belief = Belief(posterior.test_data(state, {}), suspects)

    most = int(np.argmax(belief.shares))
    assert 1 - belief.none == pytest.approx(belief.shares.sum()) == pytest.approx(belief.shown_shares.sum())
    assert most == int(np.argmax(belief.shown_shares))
    assert 0.5 < belief.shown_shares[most] < belief.shares[most]
