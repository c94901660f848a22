from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis import Significance
from perftrend.analysis.significance import chance_of
from perftrend.errors import SettingsError
from perftrend.model import Group


def doubt(*parts: list[float], significance: Significance | None = None) -> str:
    """Return the doubt in the step to the last of several groups."""
    groups, start = [], 0
    for part in parts:
        groups.append(Group(start, start + len(part), float(np.nanmean(part)), float(np.nanstd(part)), 0.0))
        start += len(part)
    judge = significance or Significance()
    return judge.doubt(groups, len(groups) - 1, np.concatenate(parts))


@pytest.mark.parametrize(
    ("freedom", "t", "chance"),
    [
        (1, 12.706, 0.05),
        (2, 4.303, 0.05),
        (3, 12.924, 0.001),
        (7, 5.408, 0.001),
        (10, 2.228, 0.05),
        (60, 3.460, 0.001),
    ],
)
def test_chance_agrees_with_the_printed_table(freedom: int, t: float, chance: float) -> None:
    """Two-sided percentage points of Student's t, to the three digits of every textbook."""
    assert chance_of(t, freedom) == pytest.approx(chance, rel=2e-3)


@given(st.floats(min_value=0, max_value=1e6), st.integers(min_value=1, max_value=300))
def test_chance_falls_as_the_step_grows(t: float, freedom: int) -> None:
    assert 0 <= chance_of(t + 0.5, freedom) <= chance_of(t, freedom) + 1e-12 <= 1 + 2e-12
    assert chance_of(0.0, freedom) == pytest.approx(1.0)


NOISE_OF_ONE = [100.0, 101.0, 99.0, 101.0, 99.0, 100.0, 101.0, 99.0]
"""Average 100, six squares of 1 over 7 degrees of freedom: a deviation of 0.93."""


def test_step_beyond_the_noise_is_told_as_worked_by_hand() -> None:
    """One run at 90: t = 10 / (0.926 √(1/8 + 1)) = 10.2; 6.1 would do for 1 in 2,000."""
    assert not doubt(NOISE_OF_ONE, [90.0])


def test_step_within_the_noise_is_not_told() -> None:
    """One run at 95: t = 5 / (0.926 √(1/8 + 1)) = 5.1, a chance of 3 in 2,000."""
    assert "which can be noise" == doubt(NOISE_OF_ONE, [95.0])


def test_two_equal_runs_do_not_show_that_there_is_no_noise() -> None:
    assert "too few runs to distinguish it from noise" == doubt([100.0, 100.0], [97.5])


def test_more_runs_make_the_same_step_certain() -> None:
    assert not doubt(NOISE_OF_ONE, [95.0, 95.1, 94.9])


def test_step_of_earlier_runs_was_chosen_and_must_be_larger_for_it() -> None:
    """Two runs at 95.5: t = 4.5 / (0.866 √(1/8 + 1/2)) = 6.6; nine times its chance is 1.6 in 1,000."""
    assert "which can be noise" == doubt(NOISE_OF_ONE, [95.5, 95.5])
    assert not doubt(NOISE_OF_ONE, [95.5, 95.5], significance=Significance(chance=0.002))


def test_noise_is_learned_from_all_groups() -> None:
    """Beside a quiet group alone the step would be certain; the trace is not so quiet."""
    wild = [60.0, 80.0, 70.0, 90.0, 50.0, 85.0]

    assert not doubt([100.0, 100.1, 99.9, 100.0, 100.1], [97.0])
    assert "which can be noise" == doubt(wild, [100.0, 100.1, 99.9, 100.0, 100.1], [97.0])


def test_noise_of_a_fast_level_is_scaled_to_a_slow_one() -> None:
    """Runs stray by 8 %; one at less than a third of the speed strays by 8 % of that, and its end is told."""
    fast = [160.0, 175.0, 146.0, 163.0, 150.0, 172.0, 148.0, 166.0]

    assert not doubt(fast, [46.0], [163.0])
    assert not doubt([-value for value in fast], [-46.0], [-163.0])


def test_levels_around_zero_are_not_scaled() -> None:
    """Two groups that stray by 1 around -1 and 1: t = 2 / (1.1 √(1/4 + 1/4)) = 2.4."""
    assert "which can be noise" == doubt([-2.0, 0.0, -2.0, 0.0], [2.0, 0.0, 2.0, 0.0])
    assert not doubt([-1.1, -0.9, -1.1, -0.9], [1.1, 0.9, 1.1, 0.9])


def test_small_change_is_not_told_however_certain() -> None:
    still = [100.0] * 50

    assert "less than the 1 % that counts" == doubt(still, [99.1] * 50)
    assert not doubt(still, [98.9] * 50)
    assert not doubt(still, [99.1] * 50, significance=Significance(minimum_change=0.005))


def test_two_runs_tell_nothing_of_noise_but_an_obvious_step_is_told() -> None:
    assert "too few runs to distinguish it from noise" == doubt([100.0], [80.0])
    assert not doubt([100.0], [75.0])


def test_obvious_step_must_pass_the_test_once_the_noise_is_known() -> None:
    assert "which can be noise" == doubt([100.0, 140.0, 60.0, 120.0, 80.0], [70.0])


def test_step_from_zero_is_told() -> None:
    assert not doubt([0.0] * 6, [5.0])


def test_empty_positions_are_no_runs() -> None:
    gaps = [100.0, *[math.nan] * 20, 100.5]

    assert "too few runs to distinguish it from noise" == doubt(gaps, [90.0])


@pytest.mark.parametrize("name", ["minimum_change", "chance", "obvious_change"])
@pytest.mark.parametrize("value", [-0.1, 1.5, math.nan])
def test_share_outside_its_range_is_refused(name: str, value: float) -> None:
    with pytest.raises(SettingsError, match=f"{name} is {value}; give a number from 0 to 1"):
        Significance(**{name: value})


def test_newest_run_alone_does_not_make_an_older_step_certain() -> None:
    """Its place was chosen among all runs, whatever the newest one is."""
    old = [95.5, 95.5, 95.5, 95.5, 95.5]
    groups = [
        Group(0, 8, 100.0, float(np.std(NOISE_OF_ONE)), 0.0), Group(8, 13, 95.5, 0.9, 0.0),
        Group(13, 14, 93.0, 0.0, 0.0),
    ]  # fmt: skip
    samples = np.array([*NOISE_OF_ONE, *old, 93.0])

    assert Significance(chance=1e-5).doubt(groups[:2], 1, samples[:13])
    assert Significance(chance=1e-5).doubt(groups, 1, samples)
