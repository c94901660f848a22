from __future__ import annotations

from dataclasses import replace

import pytest

from perftrend.analysis.comparison import (
    Comparison,
    Conclusion,
    DecisionRule,
    Design,
    Observation,
    RandomizationTest,
    compare,
    decision_probability,
    detection_probability,
    is_settled,
)


def undecided(estimate: float, *, error: float = 0.01, rounds: float = 5.0) -> Comparison:
    return Comparison(
        outcome=Conclusion.UNDECIDED,
        relative=estimate,
        low=estimate - 2.576 * error,
        high=estimate + 2.576 * error,
        probability_worse=0.5,
        probability_better=0.5,
        probability_matters=0.5,
        smallest=0.05,
        outliers=(),
        parent=1.0,
        patch=1.0,
        rounds=rounds,
        design=Design(maximum_rounds=10),
        rule=DecisionRule(),
        estimate=estimate,
        error=error,
        evidence=RandomizationTest(1.0, 0.0),
        any_shape=0.0,
    )


@pytest.mark.parametrize("outcome", [each for each in Conclusion if each is not Conclusion.UNDECIDED])
def test_what_is_shown_stays_shown(outcome: Conclusion) -> None:
    assert is_settled(replace(undecided(-0.05), outcome=outcome), 5)


def test_last_round_settles_all() -> None:
    assert is_settled(undecided(-0.03), 0)


def test_measurement_that_nearly_shows_goes_on() -> None:
    assert not is_settled(undecided(-0.03), 5)


def test_measurement_without_hope_ends() -> None:
    """Eight rounds done, the estimate at 0: two more would have to lie six errors off."""
    assert is_settled(undecided(0.0, rounds=8.0), 2)


def test_chance_of_zero_waits_for_all_rounds() -> None:
    assert not is_settled(undecided(0.0, rounds=8.0), 2, chance=0.0)


def test_interval_that_may_fall_within_the_threshold_is_waited_for() -> None:
    """Half of the interval is 1.16 %; after nine rounds of five it is 0.86 %."""
    narrow = undecided(0.0, error=0.0045)

    assert not is_settled(narrow, 4)
    assert is_settled(narrow, 1)


def test_builds_that_were_not_measured_are_waited_for() -> None:
    assert not is_settled(compare([Observation(0, 0.0, (1.0,))]), 3)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_larger_differences_show_more_probably(sign: float) -> None:
    chances = [detection_probability(undecided(sign * size), 5) for size in (0.0, 0.01, 0.02, 0.04)]

    assert chances == sorted(chances)
    assert 0.0 <= chances[0] < 0.1
    assert 0.9 < chances[-1] <= 1.0


def test_nothing_is_left_to_decide_after_the_last_round_or_a_verdict() -> None:
    assert 0.0 == decision_probability(undecided(-0.03), 0)
    assert 0.0 == decision_probability(replace(undecided(-0.03), outcome=Conclusion.REGRESSION), 5)


def test_interval_is_as_probable_to_fall_within_the_threshold_as_the_difference_to_be_small() -> None:
    """Half of the interval will be 0.9 %: the middle has 0.1 % of room on both sides, one deviation."""
    narrow = undecided(0.0, error=0.9 * 2**0.5 / 257.583)
    deviation = narrow.error / 2**0.5
    spread = replace(
        narrow, rule=DecisionRule(threshold=0.009 + deviation), low=-0.009 * 2**0.5, high=0.009 * 2**0.5
    )

    assert 0.683 == pytest.approx(
        decision_probability(spread, 5) - detection_probability(spread, 5), abs=0.002
    )


def test_difference_of_one_test_among_many_is_shown_less_probably() -> None:
    alone = undecided(-0.03)

    chances = [
        detection_probability(replace(alone, rule=DecisionRule(tests=tests)), 5) for tests in (1, 50, 1000)
    ]

    assert chances == sorted(chances, reverse=True)
    assert chances[0] > chances[-1]
