import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from perftrend.bisect.adaptive.noise_model import inverse, update_inverse

SEEDS = some.integers(0, 2**32 - 1)


def covariances(seed: int, size: int) -> np.ndarray:
    """Draw three, some of them far from the unit matrix."""
    roots = np.random.default_rng(seed).normal(size=(3, size, size))
    return roots @ np.swapaxes(roots, 1, 2) / size + np.array([0.01, 0.1, 1.0])[:, None, None] * np.eye(size)


@given(SEEDS, some.integers(1, 70))
def test_inverse_and_determinant_are_those_of_linear_algebra(seed: int, size: int) -> None:
    given_ones = covariances(seed, size)

    precision, log_determinant = inverse(given_ones)

    assert precision @ given_ones == pytest.approx(np.tile(np.eye(size), (3, 1, 1)), abs=1e-7)
    assert np.linalg.slogdet(given_ones).logabsdet == pytest.approx(log_determinant, abs=1e-8)


@given(SEEDS, some.integers(1, 3))
def test_widening_is_adding_to_the_covariance(seed: int, count: int) -> None:
    before = covariances(seed, 20)
    design = np.random.default_rng(seed).integers(0, 2, (count, 20)).astype(float)
    after = before + 50.0 * design.T @ design

    precision, log_determinant = update_inverse(*inverse(before), design, 50.0)

    assert np.linalg.inv(after) == pytest.approx(precision, abs=1e-6)
    assert np.linalg.slogdet(after).logabsdet == pytest.approx(log_determinant, abs=1e-8)


def test_what_is_no_covariance_is_refused() -> None:
    with pytest.raises(np.linalg.LinAlgError):
        inverse(-np.tile(np.eye(40), (2, 1, 1)))


def test_inverse_is_exact_for_builds_that_were_measured_very_often() -> None:
    """Drift, layout and little noise: eliminated by blocks, such a covariance lost all digits."""
    random = np.random.default_rng(1)
    builds, hours = np.sort(random.integers(0, 14, 200)), np.sort(random.random(200)) * 5
    layout, drift = np.equal.outer(builds, builds), np.minimum.outer(hours, hours)
    given_ones = (1.44 * layout + 6.25 * drift + 0.2 * np.eye(200))[np.newaxis]

    precision, _ = inverse(given_ones)

    assert precision[0] @ given_ones[0] == pytest.approx(np.eye(200), abs=1e-9)
