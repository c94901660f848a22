"""Evidence of pairs: what it proves, and what no noise can make it prove."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from perftrend.analysis.comparison.paired_test import (
    MeasurementPair,
    estimate_difference,
    evidence,
    log_odds,
    pool_evidence,
)

Random = np.random.Generator


def normal(random: Random, count: int) -> list[float]:
    return [float(each) for each in 2 * random.standard_normal(count)]


def heavy(random: Random, count: int) -> list[float]:
    return [float(each) for each in 2 * random.standard_t(2, count)]


def two_speeds(random: Random, count: int) -> list[float]:
    """1.6 apart, each for some measurements in a row."""
    slow, found = False, []
    for _ in range(count):
        slow ^= bool(random.random() < 0.3)
        found.append(-47.0 * slow + 0.4 * float(random.standard_normal()))
    return found


def drifting(random: Random, count: int) -> list[float]:
    return [float(each) for each in np.cumsum(random.standard_normal(count))]


NOISES = (normal, heavy, two_speeds, drifting)


def paired(values: list[float], difference: float, random: Random) -> list[MeasurementPair]:
    """Measure in pairs, of which a coin tosses the order."""
    found = []
    for first, second in zip(values[::2], values[1::2], strict=True):
        parent, candidate = (first, second) if random.random() < 0.5 else (second, first)
        found.append(MeasurementPair(parent, candidate + difference))
    return found


@pytest.mark.parametrize("noise", NOISES)
def test_builds_that_are_alike_hardly_ever_look_different(
    noise: Callable[[Random, int], list[float]], *, thorough: bool
) -> None:
    """1/e is ever reached in a share of at most e: here of 20 in at most 1 of 20, and 20 or 40 are tried."""
    reached, seeds = 0, 40 if thorough else 20
    for seed in range(seeds):
        random = np.random.default_rng(seed)
        pairs = paired(noise(random, 32), 0.0, random)
        reached += any(evidence(pairs[:count]).log_e > math.log(20) for count in range(5, 17))

    assert reached <= seeds / 10


def test_expectation_of_the_capital_is_one() -> None:
    """The bets are fair: over both sides of each coin the capital is neither won nor lost."""
    random = np.random.default_rng(3)
    pairs = paired(two_speeds(random, 10), 0.0, random)
    swapped = [MeasurementPair(each.candidate, each.parent) for each in pairs]

    capitals = [
        math.exp(evidence([(pairs, swapped)[coins >> at & 1][at] for at in range(5)]).log_e)
        for coins in range(2**5)
    ]

    assert np.mean(capitals) == pytest.approx(1)


def test_several_figures_of_the_same_pairs_are_as_fair_as_one() -> None:
    random = np.random.default_rng(3)
    averages, best = (paired(two_speeds(random, 10), 5.0, random) for _ in range(2))

    def swapped(pairs: list[MeasurementPair], coins: int) -> list[MeasurementPair]:
        return [
            MeasurementPair(each.candidate, each.parent) if coins >> at & 1 else each
            for at, each in enumerate(pairs)
        ]

    capitals = [
        math.exp(pool_evidence([evidence(swapped(each, coins)) for each in (averages, best)]).log_e)
        for coins in range(2**5)
    ]

    assert np.mean(capitals) == pytest.approx(1)
    assert pool_evidence([evidence(averages)]) == evidence(averages)


@pytest.mark.parametrize(
    ("noise", "difference", "most"), [(normal, -8.0, 12), (heavy, 20.0, 16), (two_speeds, 5.0, 20)]
)
def test_difference_is_shown_with_its_size(
    noise: Callable[[Random, int], list[float]], difference: float, most: int
) -> None:
    random = np.random.default_rng(7)
    before = noise(random, 20)

    shown = evidence(
        paired(noise(random, 2 * most), difference, random),
        parent_before=before[:10],
        candidate_before=[each + difference for each in before[10:]],
        claim=difference,
    )

    assert shown.log_e > math.log(256)
    assert shown.probability > 0.99
    assert shown.low <= difference <= shown.high
    assert shown.median == pytest.approx(difference, abs=3)
    assert shown.claimed > 0.95


def test_claim_that_pairs_do_not_bear_out_is_refuted() -> None:
    random = np.random.default_rng(5)

    shown = evidence(paired(normal(random, 20), 0.0, random), claim=12.0)

    assert shown.claimed < 0.01
    assert shown.log_e < 1


def test_values_before_the_pairs_prove_nothing() -> None:
    before = [0.0, 0.1, -0.1, 0.2], [30.0, 30.1, 29.9, 30.2]

    shown = evidence([], parent_before=before[0], candidate_before=before[1], claim=30.0)

    assert (0.0, 0, 1.0) == (shown.log_e, shown.pairs, shown.claimed)
    assert (-math.inf, math.inf) == (shown.low, shown.high)
    assert log_odds(*before) > 3
    assert estimate_difference(*before) == pytest.approx(30, abs=2)


def test_test_that_fails_with_the_candidate_alone_shows_a_difference() -> None:
    fails, works = evidence([MeasurementPair(0.1, None)] * 12), evidence([MeasurementPair(None, None)] * 12)

    assert fails.log_e > math.log(256)
    assert 0.0 == works.log_e


def test_nothing_is_expected_without_values() -> None:
    assert estimate_difference([], [1.0]) is None
