from __future__ import annotations

import itertools
import json
import math
import random
from functools import cache
from pathlib import Path

import jumpavg
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis import partition
from perftrend.analysis.description import MAXIMUM_IN_UNITS, formula_named
from perftrend.errors import SettingsError
from perftrend.model import Samples

DATA = Path(__file__).parents[3] / "data"
ENGINES = ["numpy", "compiled"]
FORMULAS = ["jumpavg-0.4", "jumpavg-0.1"]

values = st.one_of(
    st.floats(min_value=0.0, max_value=1e8),
    st.sampled_from([0.0, 1.0, 9.9e6, 1e7, 1.01e7]),
)
series = st.lists(values, min_size=2, max_size=10).filter(lambda samples: max(samples) > 1e-3)


def starts(samples: object, **options: object) -> list[int]:
    return [group.start for group in partition(samples, **options).groups]  # type: ignore[arg-type]


def fewest(samples: list[float], formula: str) -> float:
    """Count the bits of every partition, group by group, from the formulas alone; return the fewest."""
    chosen = formula_named(formula)
    scaled = np.array(samples) / (max(samples) / MAXIMUM_IN_UNITS if formula == "jumpavg-0.4" else 1.0)
    maximum = scaled.max()

    @cache
    def alone(start: int, stop: int) -> float:
        group = scaled[start:stop]
        deviation = np.array([(group - group[0]).std()])
        return float(chosen.alone_bits(np.array([group.size]), deviation, maximum)[0])

    @cache
    def average(start: int, middle: int, stop: int) -> float:
        """Count the bits of a group's average, which is described by that of the group before."""
        before, after = scaled[start:middle].mean(), scaled[middle:stop].mean()
        return float(chosen.later_bits(np.array([after]), np.array([before]), maximum)[0])

    def described(cuts: tuple[int, ...]) -> float:
        places = (0, *cuts, len(samples))
        groups = sum(alone(*group) for group in itertools.pairwise(places))
        averages = sum(average(*three) for three in zip(places, places[1:], places[2:], strict=False))
        return groups + chosen.first_bits(maximum) + averages

    inner = range(1, len(samples))
    every = (cuts for count in range(len(samples)) for cuts in itertools.combinations(inner, count))
    return min(map(described, every))


@pytest.mark.parametrize("engine", ENGINES)
@given(series, st.sampled_from(FORMULAS))
def test_no_partition_is_shorter(engine: str, samples: list[float], formula: str) -> None:
    assert fewest(samples, formula) == pytest.approx(
        partition(samples, formula=formula, engine=engine).bits, rel=1e-9, abs=1e-6
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("seed", range(3))
def test_no_partition_of_twelve_samples_is_shorter(engine: str, formula: str, seed: int) -> None:
    generator = np.random.default_rng(seed)
    levels = np.repeat(generator.uniform(0.5, 1.0, 4), 3)
    samples = (1e7 * levels * generator.normal(1.0, 0.02, 12)).tolist()

    assert fewest(samples, formula) == pytest.approx(
        partition(samples, formula=formula, engine=engine).bits, rel=1e-9
    )


@cache
def fewest_of_long(samples: tuple[float, ...], formula: str) -> float:
    """Go over all starts and stops and all predecessors of each: what the search must not prune away."""
    chosen = formula_named(formula)
    scaled = np.array(samples) / chosen.default_unit(max(samples))
    maximum, size = float(scaled.max()), scaled.size
    bits, means = np.full((size, size + 1), np.inf), np.zeros((size, size + 1))
    for start in range(size):
        for stop in range(start + 1, size + 1):
            group = scaled[start:stop]
            means[start, stop] = group.mean()
            alone = chosen.alone_bits(np.array([group.size]), np.array([(group - group[0]).std()]), maximum)[
                0
            ]
            before = chosen.first_bits(maximum)
            if start:
                later = chosen.later_bits(group.mean(), means[:start, start], maximum)
                before = (bits[:start, start] + later).min()
            bits[start, stop] = alone + before
    return float(bits[:, size].min())


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize(
    "kind",
    [
        "noise",
        "steps",
        "uniform",
        "small integers",
        "orders of magnitude",
        "drift",
        "constant steps",
        "one huge",
    ],
)
def test_pruning_loses_nothing(engine: str, formula: str, kind: str) -> None:
    generator = np.random.default_rng(sum(map(ord, kind)))
    for size in (40, 90):
        samples = long_series(kind, size, generator)

        assert fewest_of_long(tuple(samples.tolist()), formula) == pytest.approx(
            partition(samples, formula=formula, engine=engine).bits, rel=1e-9, abs=1e-6
        )


def long_series(kind: str, size: int, generator: np.random.Generator) -> Samples:
    levels = np.repeat(generator.uniform(0.7, 1.0, size), generator.integers(1, 30, size))[:size]
    noise = generator.normal(1.0, 0.01, size)
    made = {
        "noise": 1e7 * noise,
        "steps": 1e7 * levels * noise,
        "uniform": generator.uniform(0.0, 1e7, size),
        "small integers": generator.integers(0, 5, size).astype(float),
        "orders of magnitude": np.exp(generator.normal(0.0, 4.0, size)),
        "drift": 1e7 * noise * (1 + 0.3 * np.arange(size) / size),
        "constant steps": 1e7 * levels,
        "one huge": np.where(np.arange(size) == size // 3, 1e9, 1e6 * noise),
    }
    return made[kind]


@pytest.mark.parametrize("kind", ["noise", "steps", "uniform", "drift"])
def test_both_engines_cut_long_series_at_the_same_places(kind: str) -> None:
    generator = np.random.default_rng(11)
    for size in (300, 1500):
        samples = long_series(kind, size, generator)
        plain, compiled = partition(samples, engine="numpy"), partition(samples, engine="compiled")

        assert [group.start for group in plain.groups] == [group.start for group in compiled.groups]
        assert plain.bits == pytest.approx(compiled.bits, rel=1e-12)


def random_series(generator: np.random.Generator) -> list[float]:
    size = int(generator.integers(2, 40))
    noise = float(generator.choice([0.002, 0.01, 0.03]))
    levels = np.repeat(generator.uniform(0.7, 1.0, size), generator.integers(1, 20, size))[:size]
    kinds = {
        "noise": 1e7 * generator.normal(1.0, noise, size),
        "steps": 1e7 * levels * generator.normal(1.0, noise, size),
        "uniform": generator.uniform(0.0, 1e7, size),
        "small integers": generator.integers(0, 5, size).astype(float),
        "orders of magnitude": np.exp(generator.normal(0.0, 4.0, size)),
    }
    samples: list[float] = np.abs(kinds[str(generator.choice(list(kinds)))]).tolist()
    return samples if max(samples) else random_series(generator)


def test_never_longer_than_jumpavg(*, thorough: bool) -> None:
    generator = np.random.default_rng(20240229)
    for _ in range(2000 if thorough else 500):
        samples = random_series(generator)
        bits = jumpavg.classify(samples).bits

        assert partition(samples).bits <= bits + 1e-9 * abs(bits), samples


def test_partition_is_that_of_the_older_jumpavg_or_shorter() -> None:
    """The file holds what version 0.1.2 answers; it cannot be installed beside 0.4."""
    for case in json.loads((DATA / "jumpavg_0_1.json").read_text())["series"]:
        found = partition(case["samples"], formula="jumpavg-0.1")

        assert found.bits <= case["bits"] * (1 + 1e-9)
        if case["starts"] == [group.start for group in found.groups]:
            assert case["bits"] == pytest.approx(found.bits, rel=1e-9)


def test_bits_are_those_that_jumpavg_counts_for_the_same_groups() -> None:
    generator = np.random.default_rng(5)
    for _ in range(100):
        samples = random_series(generator)
        found = partition(samples)
        theirs = jumpavg.BitCountingGroupList(max_value=max(samples), unit=max(samples) / MAXIMUM_IN_UNITS)
        for group in found.groups:
            theirs.append_group_of_runs(samples[group.start : group.stop])

        assert [group.bits for group in theirs] == pytest.approx([group.bits for group in found.groups])
        assert theirs.bits == pytest.approx(found.bits, rel=1e-9)


def test_shorter_than_jumpavg_where_that_dropped_the_right_prefix() -> None:
    """The peer keeps one best prefix for each position, whatever average comes next."""
    generator = np.random.default_rng(3)
    excess = []
    for _ in range(400):
        samples = generator.uniform(0.0, 1e7, 20).tolist()
        excess.append(jumpavg.classify(samples).bits - partition(samples).bits)

    assert max(excess) > 0.01


def test_group_tells_where_it_lies_and_what_its_samples_are() -> None:
    found = partition([10.0, 10.2, 9.8, 10.0, 5.0, 5.1, 4.9, 5.0])
    first, second = found.groups

    assert (first.start, first.stop, second.start, second.stop) == (0, 4, 4, 8)
    assert (first.mean, second.mean) == pytest.approx((10.0, 5.0))
    assert (first.stdev, second.stdev) == pytest.approx((math.sqrt(0.02), math.sqrt(0.005)))
    assert first.bits + second.bits == pytest.approx(found.bits)


def test_empty_positions_keep_their_place_and_belong_to_no_group() -> None:
    nan = math.nan
    found = partition([nan, 10.0, 10.2, nan, 9.8, 10.0, nan, nan, 5.0, 5.1, 4.9, 5.0, nan])

    assert [(1, 6), (8, 12)] == [(group.start, group.stop) for group in found.groups]
    assert partition([10.0, 10.2, 9.8, 10.0, 5.0, 5.1, 4.9, 5.0]).bits == pytest.approx(found.bits)


def test_trend_is_told_at_the_positions_of_groups_only() -> None:
    nan = math.nan
    found = partition([nan, 10.0, nan, 10.0, 10.0, 10.0, nan, 5.0, 5.0, 5.0])

    np.testing.assert_array_equal([nan, 10, 10, 10, 10, 10, nan, 5, 5, 5], found.trends(10))


def test_infinite_samples_are_no_samples() -> None:
    assert partition([10.0, math.nan, 10.1, math.nan]) == partition([10.0, math.inf, 10.1, -math.inf])


@pytest.mark.parametrize("samples", [[], [math.nan], [math.inf, math.nan]])
def test_nothing_is_described_by_no_group(samples: list[float]) -> None:
    found = partition(samples)

    assert ((), 0.0) == (found.groups, found.bits)


def test_one_sample_is_one_group() -> None:
    """Size: log2(1 * 2) = 1 bit; average: log2(8191 + 1) = 13 bits."""
    (group,) = partition([3.2e6]).groups

    assert (0, 1, 3.2e6, 0.0) == (group.start, group.stop, group.mean, group.stdev)
    assert group.bits == pytest.approx(14.0)


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 3.3e6, -7.0, 1e308, 5e-324])
def test_equal_samples_are_one_group_without_deviation(value: float) -> None:
    (group,) = partition([value] * 7).groups

    assert (value, 0.0) == (group.mean, group.stdev)
    assert math.isfinite(group.bits)


@pytest.mark.parametrize("value", [0.0, 100.0, 3.3e6, -3.3e6])
def test_equal_samples_of_many_units_are_one_group_by_the_older_formula(value: float) -> None:
    (group,) = partition([value] * 7, formula="jumpavg-0.1").groups

    assert (value, 0.0) == (group.mean, group.stdev)


def test_samples_without_a_positive_one_are_described_with_their_signs_turned() -> None:
    samples = [10.0, 10.2, 9.8, 10.0, 5.0, 5.1, 4.9, 5.0]
    turned = partition([-sample for sample in samples])

    assert partition(samples).bits == pytest.approx(turned.bits)
    assert [-10.0, -5.0] == pytest.approx([group.mean for group in turned.groups])


def test_negative_samples_among_positive_ones_count_as_jumpavg_counts_them() -> None:
    samples = [3.0, 2.9, 3.1, -2.0, -2.1, -1.9, 3.0]

    assert jumpavg.classify(samples).bits >= partition(samples).bits - 1e-9
    assert 3 in starts(samples)


def test_one_run_at_a_new_level_is_a_group() -> None:
    assert [0, 8] == starts([100.0, 101.0, 99.0, 100.5, 99.5, 100.0, 101.0, 99.0, 70.0])


def test_unit_decides_what_is_noise() -> None:
    """The same step of one in a thousand, of twenty units and of one."""
    samples = [1000.0, 1000.0, 1000.0, 1000.0, 1001.0, 1001.0, 1001.0, 1001.0]

    assert [0, 4] == starts(samples, unit=0.05)
    assert [0] == starts(samples, unit=1.0)


def test_real_series_is_cut_where_its_levels_change() -> None:
    """Throughput of a database over 365 commits; source and licence stand in the file.

    What one sees in the plot: one bad run (10), a drop by an eighth (15), two rises (61, 71), a
    drop and a slow return (95, 131), a level a tenth higher (192), and one bad run near the end
    (363). jumpavg 0.4.2 cuts at the same places.
    """
    data = json.loads((DATA / "tigerbeetle_throughput.json").read_text())
    samples = [value for _, value in data["samples"]]

    assert [0, 10, 11, 15, 61, 71, 95, 131, 192, 363, 364] == starts(samples)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"formula": "jumpavg"}, "no description length formula is named 'jumpavg'"),
        ({"unit": 0.0}, "unit is 0.0; give a positive number"),
        ({"unit": math.nan}, "unit is nan; give a positive number"),
        ({"unit": 1e-200}, "too large for the unit 1e-200; give a larger unit"),
        ({"engine": "numpi"}, "no engine is named 'numpi'; did you mean 'numpy'"),
    ],
)
def test_argument_without_meaning_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        partition([1.0, 2.0], **options)  # type: ignore[arg-type]


@given(series, st.integers(-40, 40))
def test_scale_does_not_matter(samples: list[float], power: int) -> None:
    scaled = [math.ldexp(sample, power) for sample in samples]

    assert starts(samples) == starts(scaled)
    assert partition(samples).bits == pytest.approx(partition(scaled).bits)


@given(series, st.randoms(use_true_random=False))
def test_order_inside_a_group_costs_nothing(samples: list[float], chance: random.Random) -> None:
    """Shuffled within its groups a series may allow a shorter partition, but needs no longer one."""
    found = partition(samples)
    shuffled: list[float] = []
    for group in found.groups:
        members = samples[group.start : group.stop]
        chance.shuffle(members)
        shuffled += members

    assert partition(shuffled).bits <= found.bits + 1e-6


@pytest.mark.parametrize("engine", ENGINES)
def test_groups_begin_and_end_with_whole_runs(engine: str) -> None:
    """The best boundary between single samples would lie inside the third run."""
    runs = [[10.0, 10.1], [10.0, 9.9], [10.0, 5.0, 5.1, 5.0], [5.1, 4.9]]
    found = partition(runs, engine=engine)

    assert [(0, 2), (2, 4)] == [(group.start, group.stop) for group in found.groups]
    assert (10.0, 35.1 / 6) == pytest.approx([group.mean for group in found.groups])


@pytest.mark.parametrize("engine", ENGINES)
def test_runs_of_several_samples_cost_what_jumpavg_counts(engine: str) -> None:
    generator = np.random.default_rng(8)
    for _ in range(60):
        size = int(generator.integers(2, 25))
        levels = np.repeat(generator.uniform(0.7, 1.0, size), 5)[:size]
        runs = [
            (1e7 * level * generator.normal(1.0, 0.01, generator.integers(1, 8))).tolist() for level in levels
        ]
        theirs, ours = jumpavg.classify(runs), partition(runs, engine=engine)

        assert ours.bits <= theirs.bits * (1 + 1e-9)
        if [len(group.run_list) for group in theirs] == [group.size for group in ours.groups]:
            assert theirs.bits == pytest.approx(ours.bits, rel=1e-9)


def test_one_sample_a_run_is_the_same_as_single_samples() -> None:
    samples = [10.0, 10.2, 9.8, 10.0, 5.0, 5.1, 4.9, 5.0]

    assert partition(samples) == partition([[sample] for sample in samples])


def test_run_without_a_finite_sample_keeps_its_position() -> None:
    nan = math.nan
    table = [[nan, nan], [10.0, nan], [10.1, 9.9], [nan, nan], [5.0, 5.1], [4.9, 5.0]]

    assert [(1, 3), (4, 6)] == [(group.start, group.stop) for group in partition(table).groups]


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([[[1.0]]], "3 dimensions; give one value for each run, or one row of samples"),
        ([[1.0], [[2.0], [3.0]]], "a run's samples are nested"),
        (["fast"], "samples are not numbers"),
    ],
)
def test_samples_that_are_none_are_refused(samples: object, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        partition(samples)  # type: ignore[arg-type]
