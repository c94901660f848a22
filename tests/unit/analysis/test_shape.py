from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.change_evidence import ChangeShape, drift_evidence, shape_of


def test_level_and_slope_without_noise_are_a_drift() -> None:
    assert math.inf == drift_evidence(np.array([5.0] * 6 + [6.0, 7.0, 8.0, 9.0, 10.0]))


def test_two_levels_without_noise_are_a_step() -> None:
    assert -math.inf == drift_evidence(np.array([0.1] * 6 + [0.3] * 6))


def test_equal_runs_are_neither() -> None:
    assert 0.0 == drift_evidence(np.array([0.1] * 12))


def test_evidence_as_fitted_by_a_textbook_method() -> None:
    """Both curves fitted by general least squares at every break."""
    values = np.array([10.0, 10.3, 9.8, 10.1, 10.6, 11.2, 11.3, 12.1, 12.2, 12.9])
    size = values.size

    def error(curve: np.ndarray) -> float:
        design = np.column_stack([np.ones(size), curve])
        return float(((values - design @ np.linalg.lstsq(design, values)[0]) ** 2).sum())

    runs = np.arange(size)
    step = min(error((runs >= size - new).astype(float)) for new in range(1, size))
    drift = min(error(np.maximum(runs - (size - new) + 1.0, 0.0)) for new in range(3, size))

    assert drift_evidence(values) == pytest.approx(size / 2 * math.log(step / drift))


def test_drift_and_step_under_noise_are_told_apart() -> None:
    rng = np.random.default_rng(4)
    noise = rng.normal(0.0, 1.0, 90)
    slope, level = 0.2 * np.maximum(np.arange(90) - 50, 0), 4.0 * (np.arange(90) >= 50)

    assert ChangeShape.DRIFT is shape_of(100 - slope + noise)
    assert ChangeShape.DRIFT is shape_of(100 + slope + noise)
    assert ChangeShape.STEP is shape_of(100 - level + noise)


def test_few_runs_are_a_step() -> None:
    assert ChangeShape.STEP is shape_of(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))


@given(st.lists(st.integers(min_value=-99, max_value=99), min_size=6, max_size=30))
def test_unit_origin_and_direction_do_not_matter(values: list[int]) -> None:
    samples = np.array(values, dtype=float)

    assert drift_evidence(samples) == pytest.approx(drift_evidence(512 - 4 * samples), rel=1e-9, abs=1e-9)
