from __future__ import annotations

import math

import numpy as np
import pytest

from perftrend.analysis.sequential import newest_off, sigmas_off

CALM = [10.0, 11.0, 9.0, 10.0, 12.0, 8.0, 11.0, 9.0]
"""Median 10, distances 0, 1, 1, 0, 2, 2, 1, 1: a robust sigma of 1.4826."""


def test_distances_are_in_robust_sigmas() -> None:
    assert sigmas_off(np.array(CALM))[5] == pytest.approx(-2 / 1.4826)


@pytest.mark.parametrize(
    ("newest", "count"), [([10.0], 0), ([30.0], 1), ([30.0, -10.0], 2), ([30.0, 10.0], 0), ([30.0, 15.5], 2)]
)
def test_newest_runs_off_are_those_in_a_row(newest: list[float], count: int) -> None:
    """Here 14.4 is the edge of the noise."""
    assert count == newest_off(sigmas_off(np.array([*CALM, *CALM, *newest])))


def test_where_most_runs_are_equal_any_other_is_far() -> None:
    assert [0.0, 0.0, math.inf, 0.0, 0.0] == sigmas_off(np.array([5.0, 5.0, 5.1, 5.0, 5.0])).tolist()
