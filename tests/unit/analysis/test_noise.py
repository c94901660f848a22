from __future__ import annotations

import math

import numpy as np
import pytest

from perftrend.analysis.noise import noise
from perftrend.errors import SettingsError
from perftrend.model import Group

NAN = math.nan


def group(start: int, stop: int) -> Group:
    return Group(start, stop, 0.0, 0.0, 0.0)


def test_both_deviations_as_worked_by_hand() -> None:
    """Runs 9, 11 and 13, 15: within² = (2 + 2) / 2 = 2; averages 10 and 14 about 12 give 2 · 8 = 16.

    n₀ = (4 - 8/4) / 1 = 2, so that between² = (16 / 1 - 2) / 2 = 7.
    """
    found = noise([[9.0, 11.0], [13.0, 15.0]], [group(0, 2)])

    assert found.within == pytest.approx(math.sqrt(2))
    assert found.between == pytest.approx(math.sqrt(7))
    assert (2, 4) == (found.runs, found.trials)
    assert found.deviation(2) == pytest.approx(math.sqrt(8))
    assert found.share_between == pytest.approx(7 / 9)


def test_change_of_the_trend_is_no_noise() -> None:
    """The same runs in two groups of two: 9, 11 | 9, 11 and 90, 92 | 90, 92 do not differ."""
    runs = [[9.0, 11.0], [9.0, 11.0], [90.0, 92.0], [90.0, 92.0]]

    assert 0.0 == noise(runs, [group(0, 2), group(2, 4)]).between
    assert noise(runs, [group(0, 4)]).between > 40


def test_variances_of_simulated_restarts_are_found() -> None:
    """A machine whose restarts move it by 2 while its trials scatter by 1, runs of unequal size."""
    rng = np.random.default_rng(5)
    found = [
        noise(
            [rng.normal(100 + 2 * rng.standard_normal(), 1.0, rng.integers(1, 12)) for _ in range(40)],
            [group(0, 15), group(15, 40)],
        )
        for _ in range(200)
    ]

    assert np.mean([each.between**2 for each in found]) == pytest.approx(4.0, rel=0.1)
    assert np.mean([each.within**2 for each in found]) == pytest.approx(1.0, rel=0.05)


def test_more_trials_never_remove_what_lies_between_runs() -> None:
    found = noise([[9.0, 11.0], [13.0, 15.0]], [group(0, 2)])

    assert found.deviation(1) > found.deviation(10) > found.between


def test_runs_of_one_trial_tell_the_whole_deviation_only() -> None:
    """9, 10 and 11: deviation 1; nothing is known of the inside of a run."""
    found = noise([[9.0], [10.0], [11.0]], [group(0, 3)])

    assert math.isnan(found.within)
    assert found.deviation(1) == found.between == pytest.approx(1.0)
    assert math.isnan(found.share_between)


def test_missing_samples_and_runs_without_any_do_not_count() -> None:
    found = noise([[9.0, NAN, 11.0], [], [NAN], [13.0, 15.0]], [group(0, 4)])

    assert (2, 4) == (found.runs, found.trials)
    assert found.between == pytest.approx(math.sqrt(7))


def test_one_run_tells_nothing_between_runs() -> None:
    assert math.isnan(noise([[1.0, 2.0, 3.0]], [group(0, 1)]).between)


def test_no_run_has_no_noise_to_tell() -> None:
    found = noise([], [])

    assert (0, 0) == (found.runs, found.trials)
    assert math.isnan(found.within)


def test_group_beyond_the_runs_is_refused() -> None:
    with pytest.raises(SettingsError, match="a group ends at run 3 of 2"):
        noise([[1.0], [2.0]], [group(0, 3)])
