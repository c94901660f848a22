from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftrend.analysis.comparison import Conclusion, Design, Observation, compare
from perftrend.errors import SettingsError
from perftrend.model import Better


def measured(
    step: float, *, rounds: int = 6, between: float = 1.0, seed: int = 0, level: float = 3e5
) -> list[Observation]:
    """Measure alternately; the patch lies a step, in per cent of the logarithm, from its parent."""
    rng = np.random.default_rng(seed)
    return [
        Observation(
            build,
            index / 50,
            tuple(
                level
                * np.exp((step * build + between * rng.standard_normal() + rng.standard_normal(5) / 2) / 100)
            ),
        )
        for index, build in enumerate(([0, 1, 1, 0] * rounds)[: 2 * rounds])
    ]


def times(factor: float, observations: Sequence[Observation]) -> list[Observation]:
    return [replace(each, samples=tuple(factor * x for x in each.samples)) for each in observations]


@pytest.mark.parametrize(
    ("step", "better", "expected"),
    [
        (-10.0, Better.HIGHER, Conclusion.REGRESSION),
        (10.0, Better.HIGHER, Conclusion.PROGRESSION),
        (-10.0, Better.LOWER, Conclusion.PROGRESSION),
        (10.0, Better.LOWER, Conclusion.REGRESSION),
    ],
)
def test_large_difference_is_told_by_its_direction(step: float, better: Better, expected: Conclusion) -> None:
    found = compare(measured(step), better=better)

    assert expected == found.outcome
    assert found.relative == pytest.approx(math.expm1(step / 100), abs=0.03)
    assert found.low < found.relative < found.high
    assert (found.probability_worse > 0.995) == (expected is Conclusion.REGRESSION)
    assert (found.probability_matters > 0.9) == (expected is Conclusion.REGRESSION)


@pytest.mark.parametrize("factor", [0.03, 0.3, 0.5, 3.0, 30.0])
@pytest.mark.parametrize("count", [4, 5, 6, 12])
def test_a_build_that_is_quite_another_is_neither_an_outlier_nor_shrunk(factor: float, count: int) -> None:
    wobble = (0.998, 1.003, 0.995, 1.001, 1.004, 0.997)
    made = [
        Observation(build, i / 50, (207e3 * (factor if build else 1.0) * wobble[i % 6],))
        for i, build in enumerate(([0, 1, 1, 0] * 3)[:count])
    ]

    found = compare(made)

    assert () == found.outliers
    assert found.low < factor - 1 < found.high
    assert found.relative == pytest.approx(factor - 1, abs=0.03 * max(factor, 1))
    if 2 * Design().first_rounds == count:
        assert found.outcome == (Conclusion.REGRESSION if factor < 1 else Conclusion.PROGRESSION)


def test_estimate_is_the_difference_of_the_averages_where_all_is_even() -> None:
    made = [Observation(i % 2, i / 50, (100.0 * (0.9 if i % 2 else 1.0),) * 5) for i in range(8)]

    found = compare(made)

    assert (100.0, 90.0) == pytest.approx((found.parent, found.patch))
    assert found.estimate == pytest.approx(-0.1, abs=1e-5)


def test_small_certain_difference_does_not_matter_below_the_threshold() -> None:
    made = measured(-0.5, rounds=10, between=0.01)

    assert Conclusion.NO_DIFFERENCE == compare(made, threshold=0.02).outcome
    assert Conclusion.REGRESSION == compare(made, threshold=0.0).outcome


def test_one_test_among_many_has_to_differ_more_surely() -> None:
    """Its interval is the same; one test of a thousand lies outside of it on either side by chance."""
    made = measured(-2.5)

    alone, among = compare(made), compare(made, tests=1000)

    assert (Conclusion.REGRESSION, Conclusion.UNDECIDED) == (alone.outcome, among.outcome)
    assert (alone.low, alone.high) == (among.low, among.high)
    assert alone.smallest < among.smallest


def test_no_difference_is_as_sure_of_one_test_as_of_many() -> None:
    made = measured(0.0, rounds=10, between=0.01)

    assert Conclusion.NO_DIFFERENCE == compare(made, tests=1000).outcome


def test_noise_alone_is_undecided_and_says_what_would_have_shown() -> None:
    found = compare(measured(0.0, between=3.0))

    assert Conclusion.UNDECIDED == found.outcome
    assert found.low < 0 < found.high
    assert 0.03 < found.smallest < 0.2


def test_smallest_difference_shows_in_85_of_100_cases() -> None:
    """A difference as large as the one that the noise alone promises is seen about so often."""
    promised = float(np.mean([compare(measured(0.0, rounds=8, seed=seed)).smallest for seed in range(40)]))
    step = 100 * math.log1p(-promised)

    shown = [compare(measured(step, rounds=8, seed=seed)).outcome for seed in range(100, 160)]

    assert 0.7 <= shown.count(Conclusion.REGRESSION) / len(shown) <= 0.97


def test_no_difference_is_shown_before_the_first_block_is_complete() -> None:
    assert Conclusion.UNDECIDED == compare(measured(-30.0, rounds=5)).outcome
    assert Conclusion.REGRESSION == compare(measured(-30.0, rounds=6)).outcome


@given(st.floats(-8, 8), st.integers(0, 1000), st.floats(1e-6, 1e6))
def test_unit_does_not_matter(step: float, seed: int, factor: float) -> None:
    made = measured(step, rounds=4, seed=seed)

    first, second = compare(made), compare(times(factor, made))

    assert first.relative == pytest.approx(second.relative, abs=1e-6)
    assert first.smallest == pytest.approx(second.smallest, rel=1e-3)


@given(st.floats(-8, 8), st.integers(0, 1000))
def test_parent_for_patch_turns_the_difference(step: float, seed: int) -> None:
    made = measured(step, rounds=4, seed=seed)
    turned = [replace(each, build=1 - each.build) for each in made]

    # What lies far off lies below four times as often as above, which does not turn with the builds.
    first, second = compare(made), compare(turned)

    assert (1 + first.relative) * (1 + second.relative) == pytest.approx(1.0, abs=5e-3)
    assert first.probability_worse == pytest.approx(second.probability_better, abs=0.02)


@given(st.permutations(range(8)))
def test_order_of_the_observations_is_in_their_times(order: list[int]) -> None:
    made = measured(-4.0, rounds=4)

    assert compare(made).relative == pytest.approx(compare([made[i] for i in order]).relative, abs=1e-9)


def test_far_off_measurement_neither_shows_nor_hides_a_difference() -> None:
    quiet, slower = measured(0.0), measured(-6.0)
    for made, expected in ((quiet, Conclusion.UNDECIDED), (slower, Conclusion.REGRESSION)):
        spoilt = [*made[:6], *times(0.7, made[6:7]), *made[7:]]
        found = compare(spoilt)

        assert (6,) == found.outliers
        assert expected == found.outcome
        assert found.parent > 2.9e5


def test_two_of_three_that_lie_off_are_no_difference() -> None:
    """Which are the usual ones, two at 50 or one at 100? The next round will tell."""
    made = measured(-0.0, rounds=4)
    spoilt = [times(0.52 if index in {0, 3} else 1.0, [each])[0] for index, each in enumerate(made)]

    found = compare(spoilt)

    assert Conclusion.UNDECIDED == compare(spoilt[:6]).outcome == found.outcome
    assert found.relative == pytest.approx(0.0, abs=0.02)


def two_speeds(step: float, *, rounds: int, seed: int) -> list[Observation]:
    """Measure on a machine that is 1.6 times as slow in 45 % of all starts, in the order of the design."""
    random = np.random.default_rng(seed)
    design = Design(maximum_rounds=rounds)
    builds = [build for block in range(len(design.blocks)) for build in design.order(f"{seed}", block)]
    noise = 0.4 * random.standard_normal(2 * rounds) - 47 * (random.random(2 * rounds) < 0.45)
    levels = np.exp((step * np.array(builds) + noise) / 100)
    return [
        Observation(build, index / 50, (float(3e5 * level),))
        for index, (build, level) in enumerate(zip(builds, levels, strict=True))
    ]


def test_machine_of_two_speeds_hides_no_small_difference() -> None:
    """Of 20 patches that are 3 % slower 18 are found in ten rounds, and measured to 0.7 %."""
    design = Design(maximum_rounds=10)

    found = [compare(two_speeds(-3.0, rounds=10, seed=seed), design=design) for seed in range(20)]

    assert [each.outcome for each in found].count(Conclusion.REGRESSION) >= 18
    assert max(abs(each.relative - math.expm1(-0.03)) for each in found) < 0.007
    assert all(each.is_any_shape and not each.outliers for each in found)


def test_machine_of_two_speeds_feigns_no_difference(*, thorough: bool) -> None:
    """None of 40, and at most one of 60 harmless patches, after any of ten rounds; 1 % is promised."""
    design = Design(maximum_rounds=10)
    shown = 0
    for seed in range(60 if thorough else 40):
        made = two_speeds(0.0, rounds=10, seed=seed)
        outcomes = {compare(made[: 2 * rounds], design=design).outcome for rounds in design.looks}
        shown += bool(outcomes & {Conclusion.REGRESSION, Conclusion.PROGRESSION})

    assert shown <= thorough


def test_too_few_rounds_show_no_difference_of_any_size() -> None:
    found = compare(measured(-50.0, rounds=4), design=Design(maximum_rounds=4))

    assert Conclusion.UNDECIDED == found.outcome
    assert (False, math.inf) == (found.can_show, found.smallest)


def test_only_measurement_of_a_build_is_not_left_out() -> None:
    made = measured(0.0, rounds=3)
    alone = [each for each in made if each.build == 0] + times(2.0, [made[1]])

    found = compare(alone)

    assert () == found.outliers
    assert Conclusion.UNDECIDED == found.outcome
    assert found.low < 0 < found.high


def test_drift_is_no_difference() -> None:
    """Everything becomes slower by 1 % a measurement; the alternating order lets it cancel."""
    made = measured(0.0, between=0.1)
    drifting = [times(0.99**index, [each])[0] for index, each in enumerate(made)]

    found = compare(drifting)

    assert found.outcome in {Conclusion.UNDECIDED, Conclusion.NO_DIFFERENCE}
    assert found.relative == pytest.approx(0.0, abs=0.01)


def test_history_of_the_noise_makes_the_interval_narrower() -> None:
    made = measured(-6.0, rounds=3, between=1.5, seed=5)

    without, known = compare(made), compare(made, known_deviation=1.5)

    assert known.high - known.low < without.high - without.low


def test_more_planned_rounds_ask_for_more_evidence() -> None:
    made = measured(-3.0)

    many, few = (compare(made, design=Design(maximum_rounds=rounds)) for rounds in (80, 20))

    assert many.probability_worse < few.probability_worse


def test_failed_measurements_take_no_part() -> None:
    made = measured(-10.0)
    failed = [Observation(each.build, each.at_h, ()) for each in made[:2]]

    assert compare(made[2:]).relative == pytest.approx(compare([*failed, *made[2:]]).relative)


@pytest.mark.parametrize("build", [0, 1])
def test_build_without_any_sample_leaves_it_undecided(build: int) -> None:
    made = [Observation(each.build, each.at_h, ()) if each.build == build else each for each in measured(0.0)]

    found = compare(made)

    assert Conclusion.UNDECIDED == found.outcome
    assert math.isnan(found.relative)
    assert math.isinf(found.smallest)


def test_unequal_counts_are_compared() -> None:
    made = measured(-10.0, rounds=6)
    fewer = [
        replace(each, samples=each.samples[: 1 + index % 4] if each.build == 0 or index < 8 else ())
        for index, each in enumerate(made)
    ]

    assert Conclusion.REGRESSION == compare(fewer).outcome


def test_patch_that_forwards_nothing_is_a_regression_by_all() -> None:
    made = [replace(each, samples=(0.0,) * 5) if each.build else each for each in measured(0.0)]

    found = compare(made)

    assert Conclusion.REGRESSION == found.outcome
    assert found.relative == pytest.approx(-1.0, abs=0.05)


def test_values_about_zero_are_compared_by_their_reference() -> None:
    rng = np.random.default_rng(1)
    made = [
        Observation(i % 2, i / 50, tuple(-50 + 10 * (i % 2) + 0.2 * rng.standard_normal(5)))
        for i in range(12)
    ]

    found = compare(made)

    assert Conclusion.PROGRESSION == found.outcome
    assert found.relative == pytest.approx(0.2, abs=0.02)


def test_nothing_but_zeros_is_no_difference() -> None:
    made = [Observation(i % 2, i / 50, (0.0,) * 5) for i in range(20)]

    found = compare(made)

    assert found.outcome in {Conclusion.NO_DIFFERENCE, Conclusion.UNDECIDED}
    assert 0.0 == pytest.approx(found.relative, abs=1e-9)


@settings(max_examples=2 * settings.default.max_examples)
@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.lists(st.floats(-1e300, 1e300) | st.just(math.nan), max_size=4)),
        max_size=12,
    ),
    st.sampled_from([None, 1e-9, 1.0, 1e9]),
)
def test_any_samples_have_an_answer(
    made: list[tuple[int, list[float]]], known_deviation: float | None
) -> None:
    observations = [Observation(build, i / 50, tuple(samples)) for i, (build, samples) in enumerate(made)]

    found = compare(observations, known_deviation=known_deviation)

    if math.isnan(found.relative):
        assert Conclusion.UNDECIDED == found.outcome
    else:
        assert found.low <= found.relative <= found.high
        assert found.probability_worse + found.probability_better == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"threshold": 1.0}, "threshold is 1.0"),
        ({"confidence": 0.5}, "confidence is 0.5"),
        ({"known_deviation": 0.0}, "known_deviation is 0.0"),
        ({"known_deviation": math.nan}, "known_deviation is nan"),
    ],
)
def test_arguments_without_meaning_are_refused(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        compare(measured(0.0, rounds=2), **arguments)  # type: ignore[arg-type]


def test_third_build_is_refused() -> None:
    with pytest.raises(SettingsError, match="build 2 cannot be compared"):
        compare([Observation(2, 0.0, (1.0,))])


@pytest.mark.parametrize("noise", [0.0, 1e-5, 0.03, 0.3])
@pytest.mark.parametrize("difference", [0.03, 0.1, 0.25, 1.0, -0.5])
def test_large_difference_of_hardly_any_noise_is_shown_with_its_size(noise: float, difference: float) -> None:
    """One number for each start is the least that shows whether the noise has two levels."""
    random = Random(4)  # noqa: S311 - noise, no secret
    observations = []
    for _ in range(6):
        order = [0, 0, 1, 1]
        random.shuffle(order)
        for build in order:
            level = 610e6 * (1 + difference * (build == 1)) * math.exp(noise / 100 * random.gauss(0, 1))
            observations.append(Observation(build, len(observations) / 60, (level,)))

    found = compare(observations, better=Better.LOWER)

    assert (Conclusion.REGRESSION if difference > 0 else Conclusion.PROGRESSION) is found.outcome
    assert found.low <= difference <= found.high
    assert found.high - found.low < 0.06 * (1 + abs(difference))
