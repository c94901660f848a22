from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.comparison import Design, randomization_test
from perftrend.analysis.comparison.randomization import share_of_orders
from perftrend.errors import SettingsError

DESIGN = Design()
NOISE: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda random, count: 2 * random.standard_normal(count),
    "two starts": lambda random, count: (
        random.choice([-2.0, 2.0], count) + 0.15 * random.standard_normal(count)
    ),
    "two speeds in phases": lambda random, count: (
        47 * np.repeat(random.random(count) < 0.45, 3)[:count] + 0.4 * random.standard_normal(count)
    ),
    "random walk": lambda random, count: random.standard_normal(count).cumsum(),
    "Cauchy": lambda random, count: random.standard_cauchy(count),
}


def drawn(number: int, design: Design = DESIGN) -> list[int]:
    return [build for block in range(len(design.blocks)) for build in design.order(f"{number}", block)]


def separated(builds: Sequence[int]) -> list[float]:
    """Return values of which each of the patch is below each of the parent."""
    return [100.0 - 50 * build + 0.1 * (index % 7) for index, build in enumerate(builds)]


@given(st.integers(1, 8), st.integers(1, 30), st.text())
def test_each_block_measures_both_builds_as_often(first: int, maximum: int, seed: str) -> None:
    design = Design(first, maximum)

    orders = [design.order(seed, block) for block in range(len(design.blocks))]

    assert maximum == sum(design.blocks)
    assert [(rounds, rounds) for rounds in design.blocks] == [(o.count(0), o.count(1)) for o in orders]
    assert design.blocks == design.complete([build for order in orders for build in order])


def test_all_orders_of_a_block_are_as_probable() -> None:
    """Each of the six orders of two rounds in a sixth of 3,000 cases, within four deviations."""
    design = Design(first_rounds=2, maximum_rounds=2)
    orders = [design.order(f"{number}", 0) for number in range(3000)]

    counts = [orders.count(order) for order in set(orders)]

    assert 6 == len(counts)
    assert max(abs(count - 500) for count in counts) < 4 * math.sqrt(3000 * 5 / 36)


@pytest.mark.parametrize("tests", [1, 3, 10, 50, 1000])
@pytest.mark.parametrize("maximum", [5, 6, 7, 10, 20, 33])
def test_looks_share_the_error_and_none_has_less_than_its_orders_allow(tests: int, maximum: int) -> None:
    limits = Design(maximum_rounds=maximum).limits(0.01 / tests)

    assert sum(limits.values()) <= 0.01 / tests * (1 + 1e-9)
    orders = 1
    for rounds, block in zip(limits, Design(maximum_rounds=maximum).blocks, strict=True):
        orders *= math.comb(2 * block, block)
        assert limits[rounds] == 0 or limits[rounds] >= 2 / orders


@pytest.mark.parametrize(("tests", "rounds"), [(1, 6), (10, 10), (50, 12)])
def test_complete_separation_is_shown_at_the_first_look_that_can(tests: int, rounds: int) -> None:
    builds = drawn(1)
    values = separated(builds)

    shown = [
        randomization_test(values[: 2 * look], builds[: 2 * look], DESIGN, 0.01 / tests).is_shown
        for look in DESIGN.looks
    ]

    assert [look >= rounds for look in DESIGN.looks] == shown


def test_share_of_complete_separation_is_two_of_all_orders() -> None:
    """All of the patch below all of the parent, or above: 2 of C(12, 6) = 924 orders."""
    builds = tuple(drawn(2)[:12])

    found = share_of_orders(tuple(separated(builds)), builds, (6,), 0.01)

    assert 2 / 924 == pytest.approx(found)


@pytest.mark.parametrize("noise", NOISE, ids=str)
def test_alike_builds_are_as_often_shown_to_differ_as_is_allowed_at_most(
    noise: str, *, thorough: bool
) -> None:
    """With an error of 10 %: at most 15 + 3 deviations of 150."""
    design = Design(first_rounds=4, maximum_rounds=8)
    shown, tried = 0, 300 if thorough else 150
    for number in range(tried):
        values = NOISE[noise](np.random.default_rng([7, number]), 16)
        shown += randomization_test(values.tolist(), drawn(number, design), design, 0.1).is_shown

    assert shown <= 0.1 * tried + 3 * math.sqrt(0.09 * tried)


@pytest.mark.parametrize("noise", ["two starts", "two speeds in phases"])
def test_small_difference_shows_through_two_speeds(noise: str) -> None:
    """3 % within ten rounds, where single values differ by 4 or 47 %."""
    shown = 0
    for number in range(30):
        builds = drawn(number)[:20]
        values = NOISE[noise](np.random.default_rng([8, number]), 20) - 3.0 * np.array(builds)
        shown += randomization_test(values.tolist(), builds, Design(maximum_rounds=10), 0.01).is_shown

    assert shown >= 25


def test_level_and_unit_do_not_matter() -> None:
    builds = drawn(3)[:16]
    values = np.random.default_rng(3).standard_normal(16) - np.array(builds)

    shares = [
        share_of_orders(tuple((scale * values + level).tolist()), tuple(builds), (6, 2), 0.01)
        for scale, level in ((1.0, 0.0), (64.0, 0.0), (1.0, 8.0))
    ]

    # Each tries 500 orders of its own, or 1,000 if it is rare.
    assert shares[0] == pytest.approx(shares[1], abs=0.03)
    assert shares[0] == pytest.approx(shares[2], abs=0.03)


def test_other_names_for_the_builds_do_not_matter() -> None:
    builds = drawn(4)[:16]
    values = tuple((np.random.default_rng(4).standard_normal(16) - np.array(builds)).tolist())

    found, exchanged = (
        share_of_orders(values, tuple(abs(side - build) for build in builds), (6, 2), 0.01) for side in (0, 1)
    )

    assert found == pytest.approx(exchanged)


def test_missing_values_are_no_evidence() -> None:
    """Either of the two that are missing may have been the parent's: twice as many orders show as much."""
    builds = drawn(5)[:12]
    values = separated(builds)
    missing = {builds.index(0), builds.index(1)}
    some = [math.nan if index in missing else value for index, value in enumerate(values)]

    assert 1.0 == randomization_test([math.nan] * 12, builds, DESIGN, 0.01).p_value
    assert 4 / 924 == pytest.approx(share_of_orders(tuple(some), tuple(builds), (6,), 0.01))


def test_equal_values_are_no_evidence() -> None:
    assert 1.0 == randomization_test([5.0] * 12, drawn(6)[:12], DESIGN, 0.01).p_value


def test_block_that_is_not_complete_does_not_count() -> None:
    builds = drawn(7)
    values = separated(builds)

    assert (1.0, 0.0) == (
        (found := randomization_test(values[:10], builds[:10], DESIGN, 0.01)).p_value,
        found.limit,
    )
    assert randomization_test(values[:12], builds[:12], DESIGN, 0.01) == randomization_test(
        values[:14], builds[:14], DESIGN, 0.01
    )


def test_what_was_shown_at_an_earlier_look_stays_shown() -> None:
    builds = drawn(8)
    values = separated(builds)[:12] + [100.0] * 28

    assert randomization_test(values, builds, DESIGN, 0.01).is_shown


@pytest.mark.parametrize(("tests", "needed"), [(1, 5), (10, 8), (50, 9)])
def test_fewer_rounds_than_needed_show_nothing(tests: int, needed: int) -> None:
    assert needed == DESIGN.fewest_rounds(0.01 / tests)
    assert 0.0 == Design(maximum_rounds=needed - 1).limit_from(0, 0.01 / tests)


@pytest.mark.parametrize("arguments", [{"first_rounds": 0}, {"maximum_rounds": 0}])
def test_design_without_rounds_is_refused(arguments: dict[str, int]) -> None:
    with pytest.raises(SettingsError, match="is 0; give a number from 1"):
        Design(**arguments)
