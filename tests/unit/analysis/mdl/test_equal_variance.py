from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis import partition
from perftrend.analysis.mdl.level_path import cheapest_course, levels_near
from perftrend.errors import SettingsError
from perftrend.model import Samples

STEADY = [100.0, 101.0, 99.0, 100.5, 99.5, 100.0, 101.0, 99.0, 100.5, 99.5]


def bits_of(samples: Samples, course: Samples, clip: float, penalty: float) -> float:
    """Count the bits of a course with a deviation of 1, straight from their definition."""
    bits = (samples - course) ** 2 / (2 * math.log(2))
    moves = np.count_nonzero(np.diff(course))
    return float(np.minimum(bits[:-1], clip).sum() + bits[-1] + moves * penalty)


@given(
    st.lists(st.integers(0, 90).map(lambda tenths: tenths / 10), min_size=1, max_size=6),
    st.sampled_from([4.0, 7.5, math.inf]),
    st.sampled_from([1.0, 5.0, 14.0]),
)
def test_no_course_is_cheaper(values: list[float], clip: float, penalty: float) -> None:
    """All ways to cut the runs into groups; each group's best level is tried out."""
    samples = np.array(values)
    levels = levels_near(samples, 1.0)

    def best_level(start: int, stop: int) -> float:
        bits = (samples[start:stop, np.newaxis] - levels) ** 2 / (2 * math.log(2))
        last = int(stop == samples.size)
        clipped = np.minimum(bits[: stop - start - last], clip).sum(axis=0) + bits[stop - start - last :].sum(
            0
        )
        return float(clipped.min())

    inner = range(1, samples.size)
    least = min(
        sum(best_level(*ends) for ends in itertools.pairwise((0, *cuts, samples.size))) + penalty * count
        for count in range(samples.size)
        for cuts in itertools.combinations(inner, count)
    )
    course = cheapest_course(samples, levels, 1.0, clip, penalty)

    assert bits_of(samples, levels[course], clip, penalty) == pytest.approx(least, abs=1e-9)


def test_levels_fill_no_space_between_samples_far_apart() -> None:
    levels = levels_near(np.array([1.0, 2.0, 1e9]), 1.0)

    assert 51 >= levels.size
    assert all(np.abs(levels - value).min() <= 1e-6 for value in (0.0, 1.5, 3.0, 1e9 - 1, 1e9 + 1))
    assert (np.diff(levels) > 0).all()


def test_smaller_steps_are_seen_than_with_a_deviation_for_each_group() -> None:
    """Eight groups of twenty runs, noise of 3 %, steps of 8 %: 2.7 standard deviations."""
    generator = np.random.default_rng(1)
    samples = 1e7 * np.repeat([1.0, 0.92] * 4, 20) * generator.normal(1.0, 0.03, 160)
    own = [group.start for group in partition(samples).groups]
    shared = [group.start for group in partition(samples, deviation="shared").groups]

    assert len(own) < len(shared)
    assert 8 == len(shared)


def test_groups_are_those_of_the_samples() -> None:
    first, second = partition([*STEADY, *[sample - 20 for sample in STEADY]], deviation="shared").groups

    assert (0, 10, 10, 20) == (first.start, first.stop, second.start, second.stop)
    assert (100.0, 80.0) == pytest.approx((first.mean, second.mean))


def test_bits_are_those_of_the_derivation() -> None:
    """One group: M = 8191 units, N = 10; s is the sample deviation, as one average was estimated."""
    samples = np.array(STEADY) / 101.0 * 8191
    s = float(samples.std(ddof=1))
    known = (
        math.log2(8191)
        + math.log2(10) / 2
        + 9 * math.log2(s * math.sqrt(2 * math.pi))
        + 9 / (2 * math.log(2))
    )
    told = math.log2((s + 1) * (s + 2))

    assert known + told == pytest.approx(partition(STEADY, deviation="shared").bits)


def test_bits_of_outliers_are_those_of_the_derivation() -> None:
    """19 runs, one of them an outlier 40 below its group: r = 1.5 / 20, W = 40 in units."""
    samples = [*STEADY, 60.0, *STEADY[:8]]
    units = np.array([sample for sample in samples if sample != 60.0]) / 101.0 * 8191
    s = float(units.std(ddof=1))
    reach = abs(60.0 / 101.0 * 8191 - units.mean())
    groups = (
        math.log2(8191)
        + math.log2(18) / 2
        + 17 * math.log2(s * math.sqrt(2 * math.pi))
        + 17 / (2 * math.log(2))
    )
    told = math.log2((s + 1) * (s + 2)) + math.log2(20) - 18 * math.log2(1 - 1.5 / 20)
    outlier = math.log2((reach + 1) * (reach + 2)) + math.log2(2 * reach + 1) - math.log2(1.5 / 20)
    found = partition(samples, outliers=True, deviation="shared")

    assert (10,) == found.outliers
    # The distance is taken from a level that was tried, an eighth of a deviation off at most.
    assert groups + told + outlier == pytest.approx(found.bits, abs=0.02)


def test_outliers_are_told_apart_and_the_end_is_suspected() -> None:
    found = partition([*STEADY, 60.0, *STEADY, 70.0], deviation="shared", outliers=True)

    assert ((10,), (21,)) == (found.outliers, found.suspected)
    assert [0, 21] == [group.start for group in found.groups]


@pytest.mark.parametrize(
    "samples", [[7.0], [0.0] * 4, [5.0] * 6, [-5.0, -5.1, -5.0], [math.nan, 3.0, math.nan]]
)
def test_unusual_series_are_one_group(samples: list[float]) -> None:
    assert 1 == len(partition(samples, deviation="shared", outliers=True).groups)


def test_every_tenth_run_in_a_second_mode_makes_no_group() -> None:
    """By chance three runs in a row lie in the lower mode; they are as far off as the others."""
    generator = np.random.default_rng(3)
    lower = generator.random(200) < 0.1
    lower[50:53] = True
    samples = 1e7 * (1 - 0.03 * lower) * generator.normal(1.0, 0.005, 200)
    found = partition(samples, outliers=True)

    assert 1 == len(found.groups)
    assert set(np.flatnonzero(lower[:-1])) <= set(found.outliers)


def test_the_shorter_of_both_descriptions_is_taken() -> None:
    """Even noise is told shorter with one deviation, uneven noise with a deviation for each group."""
    generator = np.random.default_rng(4)
    even = 1e7 * np.repeat([1.0, 0.9, 1.0], 40) * generator.normal(1.0, 0.01, 120)
    spreads = np.repeat([0.001, 0.02, 0.001], 40)
    uneven = 1e7 * np.repeat([1.0, 0.9, 1.0], 40) * (1 + spreads * generator.standard_normal(120))
    for samples, deviation in ((even, "shared"), (uneven, "own")):
        for outliers in (False, True):
            own, shared, shorter = (
                partition(samples, deviation=each, outliers=outliers) for each in ("own", "shared", "shorter")
            )

            assert shorter == {"own": own, "shared": shared}[deviation]
            assert shorter.bits == min(own.bits, shared.bits)
            assert [0, 40, 80] == [group.start for group in shorter.groups]


def test_unknown_deviation_is_refused() -> None:
    with pytest.raises(SettingsError, match="no deviation is named 'share'; did you mean 'shared'"):
        partition([1.0], deviation="share")
