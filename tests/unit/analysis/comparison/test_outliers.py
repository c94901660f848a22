from __future__ import annotations

import math

import numpy as np
import pytest

from perftrend.analysis.comparison import Levels, NoiseGrid, Observation, fit_without_outliers, levels


def measured(y: list[float]) -> Levels:
    """Return observations, those at odd places of the patch."""
    return levels([Observation(i % 2, i * 0.02, (math.exp(each / 100),) * 5) for i, each in enumerate(y)])


def flags(y: list[float]) -> tuple[int, ...]:
    known = measured(y)
    return fit_without_outliers(known, (known.builds == 1)[np.newaxis], noise=NoiseGrid())[1]


QUIET = [0.0, 0.4, -0.3, 0.1, 0.2, -0.5, 0.5, -0.1, 0.3, -0.2, 0.0, 0.4, -0.4, 0.2, 0.1, -0.1]


@pytest.mark.parametrize("places", [(3,), (0, 7), (2, 5, 11)])
@pytest.mark.parametrize("distance", [-8.0, -20.0, -60.0])
def test_all_that_lie_far_off_are_left_out(places: tuple[int, ...], distance: float) -> None:
    y = [each + distance * (i in places) for i, each in enumerate(QUIET)]

    assert places == flags(y)


def test_nothing_is_left_out_of_even_noise() -> None:
    assert () == flags(QUIET)


def test_regression_of_the_patch_is_not_far_off() -> None:
    assert () == flags([each - 30.0 * (i % 2) for i, each in enumerate(QUIET)])


def test_rest_of_the_model_has_what_was_not_left_out() -> None:
    known = measured([each - 40.0 * (i == 5) for i, each in enumerate(QUIET)])

    model, left_out = fit_without_outliers(known, (known.builds == 1)[np.newaxis], noise=NoiseGrid())

    assert (5,) == left_out
    assert [i for i in range(16) if i != 5] == model.levels.positions.tolist()


def test_hidden_ones_are_found_by_looking_ahead_only() -> None:
    known = measured([each - 20.0 * (i in {0, 7}) for i, each in enumerate(QUIET)])
    step = (known.builds == 1)[np.newaxis]

    assert (0, 7) == fit_without_outliers(known, step, noise=NoiseGrid())[1]
    assert () == fit_without_outliers(known, step, noise=NoiseGrid(), look_ahead=False)[1]


def test_three_of_eight_that_lie_off_are_too_many_to_be_left_out() -> None:
    y = [each - 30.0 * (i in {1, 2, 5}) for i, each in enumerate(QUIET[:8])]

    assert len(flags(y)) <= 2
