"""What layouts make of a difference between two builds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from benchmarks.comparing.patches import CELLS, patch
from perftrend.analysis.comparison import (
    PARENT,
    PATCH,
    Comparison,
    Conclusion,
    Design,
    Observation,
    compare,
    levels,
)
from perftrend.analysis.comparison.estimation import Layouts, compare_layouts

DESIGN = Design(maximum_rounds=16)


def measured(parent: Sequence[float], patch: Sequence[float], *, rounds: int = 0) -> list[Observation]:
    """Measure both builds in their layouts in turn, without noise; levels are in per cent."""
    return [
        Observation(build, number, (math.exp(of[number % len(of)] / 100),), number % len(of))
        for number in range(rounds or max(len(parent), len(patch)))
        for build, of in ((PARENT, parent), (PATCH, patch))
    ]


def compared(observations: Sequence[Observation]) -> Layouts | None:
    return compare_layouts(levels(observations), observations, ())


def judged(difference: float, number: int) -> Comparison:
    """Judge a simulated patch whose layouts differ by 1 %."""
    of = patch(CELLS["variants-8"], difference, number=number, rounds=DESIGN.maximum_rounds)
    return compare(of.observations, design=of.design)


def test_student_compares_averages_of_layouts() -> None:
    found = compared(measured([0, 1, 2], [4, 5, 6], rounds=9))

    assert found
    assert (pytest.approx(4.0), 4) == (found.difference, found.freedom)
    assert pytest.approx(math.sqrt(2 / 3)) == found.error
    assert pytest.approx(0.00805, abs=1e-5) == found.p_value
    assert pytest.approx(4.0) == found.least(found.p_value)


def test_noise_of_measurements_is_no_difference_of_layouts() -> None:
    random = np.random.default_rng(1)
    noisy = [
        Observation(number % 2, number, (math.exp(random.standard_normal() / 100),), number // 2 % 3)
        for number in range(600)
    ]

    found = compared(noisy)

    assert found
    assert found.variance < 0.1 * 2 / 3


@pytest.mark.parametrize(("parent", "patch"), [([0.0], [1.0]), ([0.0], [1.0, 2.0]), ([0.0, 1.0], [2.0])])
def test_one_layout_says_nothing(parent: list[float], patch: list[float]) -> None:
    assert compared(measured(parent, patch, rounds=6)) is None


def test_layouts_that_do_not_differ_explain_nothing() -> None:
    found = compared(measured([0, 0], [1, 1]))

    assert found
    assert (0.0, 0.0, 0.0) == (found.p_value, found.least(0.01), found.equivalent_variance(0.99))


def test_observation_that_is_left_out_is_in_no_layout() -> None:
    observations = [*measured([0, 1], [0, 1]), Observation(PATCH, 9, (3.0,), 1)]

    found = compare_layouts(levels(observations), observations, (4,))

    assert found
    assert pytest.approx(0.0, abs=1e-9) == found.difference


def test_builds_that_differ_as_their_layouts_do_are_not_called_different() -> None:
    found = [judged(0.0, number) for number in range(40)]

    assert any(each.is_explained_by_layouts for each in found)
    assert {Conclusion.REGRESSION, Conclusion.PROGRESSION}.isdisjoint(each.outcome for each in found)


def test_difference_that_is_larger_is_shown() -> None:
    found = [judged(-0.05, number) for number in range(20)]

    assert 18 <= sum(each.outcome is Conclusion.REGRESSION for each in found)
    assert 19 <= sum(each.low <= -0.05 <= each.high for each in found)
