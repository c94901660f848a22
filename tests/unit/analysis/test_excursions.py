from __future__ import annotations

import math

import numpy as np
import pytest

from perftrend.analysis.excursions import (
    LONGEST,
    clipped,
    excursions,
    longest_excursion,
    sigmas_off,
    spiked,
    unfinished,
)

CALM = [10.0, 11.0, 9.0, 10.0, 12.0, 8.0, 11.0, 9.0]
"""Median 10, distances 0, 1, 1, 0, 2, 2, 1, 1: a robust sigma of 1.4826."""


def left_out(*values: float, longest: int = 2) -> list[int]:
    sigmas = sigmas_off(np.array([*CALM, *values, *CALM]))

    return np.flatnonzero(excursions(sigmas, longest)).tolist()


def test_distances_are_in_robust_sigmas() -> None:
    assert sigmas_off(np.array(CALM))[5] == pytest.approx(-2 / 1.4826)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([30.0], [8]),
        ([30.0, -10.0], [8, 9]),
        ([30.0, 15.5], [8, 9]),
        ([30.0, 30.0, 30.0], []),
        ([15.5], []),
        ([30.0, 10.0, -10.0], [8, 10]),
    ],
)
def test_one_or_two_runs_off_are_an_excursion_when_one_is_far(
    values: list[float], expected: list[int]
) -> None:
    """Here 14.4 is the edge of the noise and 16.7 is far."""
    assert expected == left_out(*values)


def test_how_long_an_excursion_is_can_be_said() -> None:
    assert [8, 9] == left_out(30.0, 31.0, longest=1)
    assert [] == left_out(30.0, 31.0, 32.0, longest=1)
    assert [8, 9, 10] == left_out(30.0, 31.0, 32.0, longest=3)


def test_newest_runs_are_no_excursion_before_the_next_one_is_back() -> None:
    newest = np.array([*CALM, *CALM, 30.0])

    assert not excursions(sigmas_off(newest), 2).any()
    assert [16] == np.flatnonzero(excursions(sigmas_off(np.append(newest, 10.0)), 2)).tolist()


@pytest.mark.parametrize(
    ("newest", "expected"),
    [
        ([10.0], []),
        ([15.5], []),
        ([30.0], [8]),
        ([30.0, 31.0], []),
        ([30.0, -10.0], [8, 9]),
        ([30.0, 31.0, -10.0], [8, 9, 10]),
        ([30.0, 31.0, 32.0], []),
        ([30.0, 10.0], []),
    ],
)
def test_far_newest_run_may_be_back_tomorrow(newest: list[float], expected: list[int]) -> None:
    """One far run may be chance here; two on the same side are not."""
    found = unfinished(sigmas_off(np.array([*CALM, *newest])), 1)

    assert expected == np.flatnonzero(found).tolist()


@pytest.mark.parametrize(
    ("far_runs", "runs", "longest"),
    [(0, 100, 0), (1, 1000, 1), (2, 100, 1), (10, 100, 3), (40, 100, LONGEST)],
)
def test_frequent_far_runs_come_in_rows_by_chance(far_runs: int, runs: int, longest: int) -> None:
    """Half of 1 in 1,000: of 0.02, k = 1 (0.02² is 0.0004); of 0.1, k = 3 (0.1³ is 0.001)."""
    sigmas = np.zeros(runs)
    sigmas[: 2 * far_runs : 2] = -10.0

    assert longest == longest_excursion(sigmas, 0.001)


def test_newest_far_runs_do_not_judge_themselves() -> None:
    sigmas = np.zeros(50)
    sigmas[-3:] = -10.0

    assert 0 == longest_excursion(sigmas, 0.001)
    assert 1 == longest_excursion(sigmas, 0.001, known=True)


def test_clipped_runs_lie_at_the_edge_of_the_noise() -> None:
    values = np.array([*CALM, 30.0, -10.0])
    sigma = 1.4826

    np.testing.assert_allclose(
        [*CALM, 10 + 3 * sigma, 10 - 3 * sigma], clipped(values, (values - 10) / sigma), rtol=1e-12
    )


def test_where_most_runs_are_equal_any_other_is_far() -> None:
    assert [0.0, 0.0, math.inf, 0.0, 0.0] == sigmas_off(np.array([5.0, 5.0, 5.1, 5.0, 5.0])).tolist()


def test_spike_is_seen_whatever_the_trend_did() -> None:
    step = np.array([*CALM, *(100.0 + np.array(CALM))])
    spike = step.copy()
    spike[3] = 60.0

    assert not spiked(step)
    assert spiked(spike)
    assert not spiked(np.array([5.0]))
    assert not spiked(np.empty(0))
