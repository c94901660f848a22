from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from perftrend.analysis import partition
from perftrend.analysis.mdl.shared import _cheapest
from perftrend.errors import SettingsError
from perftrend.model import Samples

STEADY = [100.0, 101.0, 99.0, 100.5, 99.5, 100.0, 101.0, 99.0, 100.5, 99.5]


def bits_of(samples: Samples, cuts: tuple[int, ...], deviation: float, penalty: float) -> float:
    total = 0.0
    for start, stop in itertools.pairwise((0, *cuts, samples.size)):
        group = samples[start:stop]
        squares = float(((group - group.mean()) ** 2).sum())
        total += penalty + math.log2(group.size) / 2 + squares / (2 * deviation**2 * math.log(2))
    return total


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("penalty", [0.5, 6.0, 15.0])
def test_no_groups_of_the_same_deviation_are_cheaper(seed: int, penalty: float) -> None:
    """All partitions of ten samples, one after the other."""
    generator = np.random.default_rng(seed)
    samples = np.repeat(generator.uniform(0.0, 40.0, 4), 3)[:10] + generator.normal(0.0, 5.0, 10)
    inner = range(1, 10)
    least = min(
        bits_of(samples, cuts, 5.0, penalty)
        for count in range(10)
        for cuts in itertools.combinations(inner, count)
    )
    found = _cheapest(samples, 5.0, penalty)

    assert bits_of(samples, tuple(found[1:-1]), 5.0, penalty) == pytest.approx(least)


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
    told = math.log2((s + 1) * (s + 2)) - 10 * math.log2(0.98)

    assert known + told == pytest.approx(partition(STEADY, deviation="shared").bits)


def test_outliers_are_told_apart_and_the_end_is_suspected() -> None:
    found = partition([*STEADY, 60.0, *STEADY, 70.0], deviation="shared", outliers=True)

    assert ((10,), (21,)) == (found.outliers, found.suspected)
    assert [0, 21] == [group.start for group in found.groups]


@pytest.mark.parametrize(
    "samples", [[7.0], [0.0] * 4, [5.0] * 6, [-5.0, -5.1, -5.0], [math.nan, 3.0, math.nan]]
)
def test_unusual_series_are_one_group(samples: list[float]) -> None:
    assert 1 == len(partition(samples, deviation="shared", outliers=True).groups)


def test_unknown_deviation_is_refused() -> None:
    with pytest.raises(SettingsError, match="no deviation is named 'share'; did you mean 'shared'"):
        partition([1.0], deviation="share")
