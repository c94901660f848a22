import math
from collections.abc import Sequence

import jumpavg
import pytest
from hypothesis import given
from hypothesis import strategies as some

from perftrend import errors
from perftrend.bisect import BuildPair, compare, decide
from perftrend.model import Better, Direction

VALUES = some.floats(min_value=0.01, max_value=1e8)
BUILDS = some.lists(VALUES, min_size=1, max_size=7)


def bits_by_jumpavg(groups: Sequence[Sequence[float]], unit: float) -> float:
    counted = jumpavg.BitCountingGroupList(max_value=max(map(max, groups)), unit=unit)
    for group in groups:
        counted.append_group_of_runs(list(group))
    return counted.bits


@given(BUILDS, BUILDS, BUILDS)
def test_bits_are_those_of_jumpavg(early: list[float], middle: list[float], late: list[float]) -> None:
    unit = max(early + middle + late) / 8191

    bits = decide({"t": early}, {"t": middle}, {"t": late}).bits

    assert bits_by_jumpavg([early + middle, late], unit) == pytest.approx(bits["early"])
    assert bits_by_jumpavg([early, middle + late], unit) == pytest.approx(bits["late"])
    assert bits_by_jumpavg([early, middle, late], unit) == pytest.approx(bits["apart"])


def test_bits_of_the_older_formula_are_those_of_its_library() -> None:
    """Counted by jumpavg 0.1.2 with maximum 120: 6.92 + 2.58 … bits; here by hand."""
    early, late = [100.0], [120.0]

    pair = compare(early, late, formula="jumpavg-0.1")

    assert pair is not None
    assert math.log2(2) + math.log2(121) == pytest.approx(pair.apart[0].bits)
    assert math.log2(2) + math.log2(120 * 121 / 21) == pytest.approx(pair.apart[1].bits)


@pytest.mark.parametrize(
    ("middle", "grouping", "replaces"),
    [
        ([100.5, 99.5, 100.0], "early", "early"),
        ([199.0, 201.0, 200.0], "late", "late"),
        ([140.0, 141.0, 139.0], "apart", "early"),
        ([141.5, 142.5, 143.5], "apart", "late"),
    ],
)
def test_middle_becomes_the_end_that_it_resembles(middle: list[float], grouping: str, replaces: str) -> None:
    """141.4 is as far from 100 as from 200, relative to the larger one."""
    decision = decide({"t": [100.0, 101.0, 99.0]}, {"t": middle}, {"t": [200.0, 201.0, 199.0]})

    assert (grouping, replaces) == (decision.grouping, decision.replaces)


def test_three_groups_can_win_because_no_list_is_shared() -> None:
    """With one list for two groupings the late samples would stand in both groups of the third."""
    early, middle, late = [10.0] * 4, [50.0] * 4, [90.0] * 4

    decision = decide({"t": early}, {"t": middle}, {"t": late})

    assert decision.grouping == "apart"
    assert ([10.0] * 4, [50.0] * 4, [90.0] * 4) == (early, middle, late)


@given(BUILDS, BUILDS, BUILDS)
def test_decision_does_not_depend_on_the_unit_of_the_values(
    early: list[float], middle: list[float], late: list[float]
) -> None:
    """A power of two, so that rounding is the same."""
    builds = [early, middle, late]

    plain = decide(*({"t": build} for build in builds))
    scaled = decide(*({"t": [value / 1024 for value in build]} for build in builds))

    assert plain.bits == pytest.approx(scaled.bits)
    if len({round(bits, 6) for bits in plain.bits.values()}) == len(plain.bits):
        assert (plain.grouping, plain.replaces) == (scaled.grouping, scaled.replaces)


@given(some.lists(VALUES, min_size=3, max_size=3, unique=True))
def test_side_of_three_groups_is_the_same_for_rates_and_times(means: list[float]) -> None:
    rates = decide(*({"t": [mean]} for mean in means)).tests["t"]
    times = decide(*({"t": [1 / mean]} for mean in means)).tests["t"]

    assert rates.early_difference == pytest.approx(times.early_difference)
    assert rates.late_difference == pytest.approx(times.late_difference)


def test_bits_are_summed_over_tests() -> None:
    early = {"a": [100.0, 101.0], "b": [5.0, 5.1]}
    middle = {"a": [101.0, 100.0], "b": [9.0, 9.1]}
    late = {"a": [140.0, 141.0], "b": [9.1, 9.0]}

    both = decide(early, middle, late)

    alone = [decide(*({name: build[name]} for build in (early, middle, late))) for name in "ab"]
    assert ["early", "late"] == [each.grouping for each in alone]
    for way, bits in both.bits.items():
        assert sum(each.bits[way] for each in alone) == pytest.approx(bits)


def test_test_that_fails_from_the_middle_on_draws_the_middle_to_the_late_end() -> None:
    decision = decide({"t": [100.0, 101.0, 99.0]}, {}, {"t": []})

    assert (decision.grouping, decision.replaces) == ("late", "late")


def test_test_that_fails_in_the_middle_only_stays_apart() -> None:
    decision = decide({"t": [100.0, 101.0, 99.0]}, {"t": [math.nan]}, {"t": [100.0, 100.5, 99.5]})

    assert decision.grouping == "apart"


@pytest.mark.parametrize("nothing", [[], [0.0, 0.0], [math.nan]])
def test_test_without_a_value_says_nothing(nothing: list[float]) -> None:
    decision = decide({"t": nothing}, {"t": nothing}, {"t": nothing})

    assert decision.bits == {"early": 0.0, "late": 0.0, "apart": 0.0}
    assert (decision.grouping, decision.replaces) == ("early", "early")
    assert not decision.tests


TESTS = some.dictionaries(some.sampled_from("ab"), some.lists(some.just(0.0) | VALUES, max_size=4))


@given(TESTS, TESTS, TESTS)
def test_every_input_has_a_decision(
    early: dict[str, list[float]], middle: dict[str, list[float]], late: dict[str, list[float]]
) -> None:
    decision = decide(early, middle, late)

    assert all(map(math.isfinite, decision.bits.values()))
    assert decision.bits[decision.grouping] == min(decision.bits.values())


def test_unknown_formula_is_refused() -> None:
    with pytest.raises(errors.SettingsError, match=r"jumpavg-0\.4"):
        decide({"t": [1.0]}, {"t": [1.0]}, {"t": [1.0]}, formula="jumpavg-0.5")


def paired(early: Sequence[float], late: Sequence[float]) -> BuildPair:
    pair = compare(early, late)
    assert pair is not None
    return pair


def test_difference_is_relative_to_the_early_average() -> None:
    assert paired([100.0, 102.0], [50.5]).difference == pytest.approx(-0.5)
    assert math.isnan(paired([], [3.0]).difference)
    assert compare([], [0.0]) is None


@pytest.mark.parametrize(
    ("better", "direction"),
    [(Better.HIGHER, Direction.REGRESSION), (Better.LOWER, Direction.PROGRESSION)],
)
def test_direction_is_all_that_depends_on_what_is_better(better: Better, direction: Direction) -> None:
    pair = paired([100.0, 101.0, 99.0], [50.0, 51.0, 49.0])

    assert pair.saved_bits > 0
    assert direction is pair.direction(better)
    assert paired([100.0, 101.0, 99.0], [100.0, 101.0, 99.0]).direction(better) is None
