from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis import Partition, partition
from perftrend.analysis.description import formula_named
from perftrend.analysis.mdl.cost_terms import terms_of
from perftrend.analysis.mdl.outliers import EXPECTED, count_as_far
from perftrend.analysis.mdl.trim import trim
from perftrend.errors import SettingsError
from perftrend.model import Samples

ENGINES = ["numpy", "compiled"]
STEADY = [100.0, 101.0, 99.0, 100.5, 99.5, 100.0, 101.0, 99.0, 100.5, 99.5]


def starts(found: Partition) -> list[int]:
    return [group.start for group in found.groups]


@pytest.mark.parametrize("engine", ENGINES)
def test_single_bad_run_neither_breaks_a_group_nor_widens_it(engine: str) -> None:
    samples = [*STEADY, 60.0, *STEADY]
    found = partition(samples, outliers=True, engine=engine)

    assert [0, 10, 11] == starts(partition(samples))
    assert [0] == starts(found)
    assert (10,) == found.outliers
    assert found.groups[0].stdev == pytest.approx(np.std(STEADY))


def test_two_bad_runs_in_a_row_are_outliers_and_three_are_a_group() -> None:
    two = partition([*STEADY, 60.0, 61.0, *STEADY], outliers=True)
    three = partition([*STEADY, 60.0, 61.0, 60.5, *STEADY], outliers=True)

    assert ([0], (10, 11)) == (starts(two), two.outliers)
    assert ([0, 10, 13], ()) == (starts(three), three.outliers)


def test_bad_run_beside_a_change_belongs_to_neither_side() -> None:
    found = partition([*STEADY, 40.0, *[sample - 20 for sample in STEADY]], outliers=True)

    assert ([0, 11], (10,)) == (starts(found), found.outliers)


def test_huge_run_hides_nothing() -> None:
    """It would make the unit so large that the step of 5 % vanished in it."""
    samples = [*STEADY, 1e6, *[sample * 0.95 for sample in STEADY]]
    found = partition(samples, outliers=True)

    assert ([0, 11], (10,)) == (starts(found), found.outliers)


@pytest.mark.parametrize("bad", [[70.0], [70.0, 71.0]])
def test_bad_runs_at_the_end_are_suspected_and_never_dismissed(bad: list[float]) -> None:
    found = partition([*STEADY, *bad], outliers=True)

    assert () == found.outliers
    assert tuple(range(10, 10 + len(bad))) == found.suspected
    assert 10 in starts(found)


def test_three_runs_at_a_new_level_are_a_change_and_no_suspicion() -> None:
    found = partition([*STEADY, 70.0, 71.0, 70.5], outliers=True)

    assert ([0, 10], ()) == (starts(found), found.suspected)


@pytest.mark.parametrize(
    ("newest", "suspected"),
    [
        ([70.0, 71.0, 70.5], ()),
        ([70.0, 100.0, 71.0, 70.5, 100.0, 70.2], (42, 43, 45)),
        ([70.0, 100.0, 71.0, 70.5, 100.0, 70.2, 70.3, 70.8], ()),
    ],
)
def test_usual_runs_in_between_make_bad_ones_less_surprising(
    newest: list[float], suspected: tuple[int, ...]
) -> None:
    """Two of 40 runs were as far off: three in a row are no chance; three of four may be."""
    before = [*STEADY, *STEADY, *STEADY, *STEADY]
    before[7] = before[19] = 70.2
    found = partition([*before, *newest], outliers=True)

    assert suspected == found.suspected


def test_outliers_that_lie_as_far_are_counted_on_one_side_only() -> None:
    outliers = np.array([85.0, 84.0, 20.0, 130.0])

    assert 3 == count_as_far(outliers, 100.0, 70.0)
    assert 1 == count_as_far(outliers, 100.0, 150.0)
    assert 0 == count_as_far(outliers, 100.0, 100.0)


def test_far_off_last_run_is_suspected_though_it_is_too_cheap_to_be_a_group() -> None:
    generator = np.random.default_rng(2)
    samples = [*(1e7 * generator.normal(1.0, 0.0005, 60)).tolist(), 1e7 * (1 - 0.0025)]
    found = partition(samples, outliers=True)

    assert ([0], (60,)) == (starts(found), found.suspected)


def test_reverted_run_is_no_suspicion_any_more() -> None:
    found = partition([*STEADY, 70.0, 100.0], outliers=True)

    assert ((10,), ()) == (found.outliers, found.suspected)


def test_clean_series_has_neither_outliers_nor_suspicions() -> None:
    samples = [*STEADY, *[sample - 20 for sample in STEADY]]
    plain, robust = partition(samples), partition(samples, outliers=True, deviation="own")

    assert plain.groups == robust.groups
    assert ((), ()) == (robust.outliers, robust.suspected)


def test_bits_are_those_of_groups_and_outliers() -> None:
    """19 runs cost -log2(0.98) each; the outlier is a number from 0 to the maximum of 8191 units."""
    samples = [*STEADY, 60.0, *STEADY[:9]]
    rest = partition([sample for sample in samples if sample != 60.0])
    price = math.log2(8191 + 1) - math.log2(EXPECTED)

    assert rest.bits + price - 19 * math.log2(1 - EXPECTED) == pytest.approx(
        partition(samples, outliers=True, deviation="own").bits
    )


@pytest.mark.parametrize("deviation", ["own", "shared"])
@pytest.mark.parametrize("seed", range(6))
def test_both_engines_agree(seed: int, deviation: str) -> None:
    samples = with_outliers(np.random.default_rng(seed))

    plain, compiled = (
        partition(samples, outliers=True, deviation=deviation, engine=engine) for engine in ENGINES
    )
    assert (starts(plain), plain.outliers) == (starts(compiled), compiled.outliers)
    assert plain.bits == pytest.approx(compiled.bits)


def test_changes_are_found_between_outliers() -> None:
    """Five in a hundred runs are bad; the four steps are found, and nothing else."""
    generator = np.random.default_rng(9)
    for _ in range(5):
        found = partition(with_outliers(generator), outliers=True)

        assert [0, 40, 80, 120, 160] == starts(found)


def with_outliers(generator: np.random.Generator) -> Samples:
    """Make five groups of forty runs, 5 % apart; 5 % of the runs are bad, none of them next to a step."""
    levels = np.repeat([1.0, 0.95, 1.0, 1.05, 1.0], 40)
    samples: Samples = 1e7 * levels * generator.normal(1.0, 0.005, 200)
    bad = (generator.random(200) < 0.05) & (np.arange(200) % 40 > 1) & (np.arange(200) % 40 < 38)
    samples[bad] *= generator.uniform(0.3, 0.9, np.count_nonzero(bad))
    return samples


def test_positions_count_runs_without_a_value() -> None:
    nan = math.nan
    found = partition([nan, *STEADY, nan, 60.0, *STEADY], outliers=True)

    assert ((12,), [1]) == (found.outliers, starts(found))


@pytest.mark.parametrize(
    "samples", [[0.0] * 5, [7.0], [7.0, 8.0], [-5.0, -5.1, -5.0, -9.0, -5.0, -5.1], [0.0, 0.0, -1.0, 0.0]]
)
def test_unusual_series_have_groups_too(samples: list[float]) -> None:
    assert 0 in starts(partition(samples, outliers=True))


def test_runs_of_several_samples_are_refused() -> None:
    with pytest.raises(SettingsError, match="need one value for each run; give the average"):
        partition([[1.0, 2.0], [3.0]], outliers=True)


@given(st.lists(st.integers(0, 60), min_size=3, max_size=9), st.lists(st.integers(200, 4000), max_size=2))
def test_trimming_finds_the_cheapest_choice_of_far_outliers(near: list[int], far: list[int]) -> None:
    """All choices of at most a third of the samples, one after the other."""
    samples = np.sort(np.array([1000.0 + value for value in near] + [float(5000 + value) for value in far]))
    terms = terms_of(formula_named("jumpavg-0.4"), maximum=8191.0, low=0.0, samples=samples.size)
    price = 18.6

    def bits(kept: Samples) -> float:
        s = float(kept.std())
        return float(
            terms.sizes[kept.size]
            + (kept.size - 1) * math.log2(s + 1)
            + math.log2(s + 2)
            + (samples.size - kept.size) * price
        )

    size = samples.size
    choices = (
        np.delete(samples, out)
        for count in range(size // 3 + 1)
        for out in itertools.combinations(range(size), count)
    )
    least = min(bits(kept) for kept in choices)
    dropped = np.zeros(size, dtype=bool)
    trim(samples, np.array([0, size]), terms.sizes, 1.0, price, dropped)

    assert bits(samples[~dropped]) == pytest.approx(least)


@pytest.mark.parametrize("formula", ["jumpavg-0.4", "jumpavg-0.1"])
@pytest.mark.parametrize("engine", ["compiled", "numpy"])
def test_only_positive_sample_may_be_an_outlier(formula: str, engine: str) -> None:
    samples = [2.2444335152758784e16, -1.971502946503885e16, -1.826258534216499e16, -7438125831815168.0]

    found = partition(samples, outliers=True, deviation="own", formula=formula, engine=engine)

    assert ([(1, 4)], (0,)) == ([(group.start, group.stop) for group in found.groups], found.outliers)
    assert math.isfinite(found.bits)


@pytest.mark.parametrize("factor", [0.01, 0.1, 1.5, 10.0, 100.0])
@pytest.mark.parametrize("runs", [3, 7])
def test_runs_in_a_row_that_are_alike_are_a_group_however_far_they_lie(factor: float, runs: int) -> None:
    samples = 1e6 * np.random.default_rng(3).normal(1.0, 0.01, 100 + runs)
    samples[60 : 60 + runs] *= factor
    found = partition(samples, outliers=True)

    assert ([0, 60, 60 + runs], ()) == ([group.start for group in found.groups], found.outliers)


@pytest.mark.parametrize("factor", [0.01, 0.1, 1.5, 10.0, 100.0])
def test_persistent_change_is_a_group_with_its_third_run(factor: float) -> None:
    samples = 1e6 * np.random.default_rng(3).normal(1.0, 0.01, 63)
    samples[60:] *= factor
    found = [partition(samples[:size], outliers=True) for size in (61, 63)]

    assert [(60,), ()] == [each.suspected for each in found]
    assert 60 == found[1].groups[-1].start


def test_second_mode_of_the_runs_is_no_outlier() -> None:
    """Half of the starts are 4 % slower, in 12 traces of 120 runs: no fifth of the runs is left out."""
    rng = np.random.default_rng(5)
    traces = 1e7 * (rng.normal(1.0, 0.0015, (12, 120)) + rng.choice([-0.02, 0.02], (12, 120)))

    assert max(len(partition(trace, outliers=True).outliers) for trace in traces) <= 120 / 5
