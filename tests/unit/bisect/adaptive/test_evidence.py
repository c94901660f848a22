import math
from collections.abc import Sequence

import numpy as np
import pytest

from perftrend.analysis.comparison.distributions import FarOff, NoiseGrid
from perftrend.analysis.comparison.observations import Levels, Observation, levels
from perftrend.bisect.adaptive.evidence import Hypotheses, ValueEvidence
from perftrend.bisect.adaptive.noise_model import Field

STEPS = np.array([[0, 0, 1, 1, 1, 0, 1], [0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 0, 1]], np.float64)
PAIRS = np.array([0, 0, 1]), np.array([1, 2, 2])
PRIOR = Hypotheses(math.log(0.3), np.log(np.full(3, 0.2)), np.log(np.full(3, 0.1 / 3)), *PAIRS)
NOISE = NoiseGrid(deviations=(0.5, 2.0), drifts=(0.1, 1.0), drift_weights=(0.7, 0.3))
NEVER_FAR_OFF = FarOff(share=1e-12)


ONE_LAYOUT = (0, 0, 0, 0, 0, 0, 0)


def observed(values: list[float], variants: Sequence[int] = ONE_LAYOUT) -> Levels:
    builds = [-1, 0, 1, 2, 3, -1, 1]
    return levels(
        [
            Observation(build, 0.3 * at, (value, value * 1.01), variant)
            for at, (build, value, variant) in enumerate(zip(builds, values, variants, strict=True))
        ]
    )


def log_density(known: Levels, steps: np.ndarray, found: np.ndarray) -> float:
    """Sum the normal densities over noise and sizes, one by one, without any of the identities."""
    grid = Field(known, STEPS, found, NOISE, FarOff()).grid
    flat = 100.0**2 * (1 + found.T @ found)
    total = -math.inf
    same = np.equal.outer(known.builds, known.builds)
    for s, q, c, v, prior in zip(*grid, strict=True):
        for variances in np.ndindex(*[3] * len(steps)):
            covariance = flat + q**2 * np.minimum.outer(known.at_h, known.at_h)
            covariance = covariance + np.diag(s**2 + known.errors)
            covariance += c**2 * same
            covariance += v**2 * (same & np.equal.outer(known.variants, known.variants))
            for step, which in zip(steps, variances, strict=True):
                covariance += (9.0, 225.0, 22500.0)[which] * np.outer(step, step)
            _, log_determinant = np.linalg.slogdet(covariance)
            square = known.y @ np.linalg.solve(covariance, known.y)
            density = -0.5 * (square + log_determinant + known.y.size * math.log(2 * math.pi))
            total = float(
                np.logaddexp(
                    total, density + prior + sum(math.log((0.475, 0.475, 0.05)[which]) for which in variances)
                )
            )
    return total


@pytest.mark.parametrize("variants", [ONE_LAYOUT, (0, 0, 0, 0, 0, 1, 0)])
@pytest.mark.parametrize("found", [[], [1]])
def test_evidence_is_that_of_the_normal_densities(found: list[int], variants: Sequence[int]) -> None:
    known = observed([100.0, 101.0, 96.0, 95.0, 99.0, 100.5, 96.5], variants)
    taken = STEPS[found]

    likelihood = ValueEvidence(known, STEPS, taken, PRIOR, noise=NOISE, far_off=NEVER_FAR_OFF).likelihood

    assert log_density(known, STEPS[:0], taken) == pytest.approx(likelihood.none)
    for one, step in zip(likelihood.one, STEPS, strict=True):
        assert log_density(known, step[np.newaxis], taken) == pytest.approx(one)
    # Pairs are summed over the points that matter alone.
    for two, pair in zip(likelihood.two, zip(*PAIRS, strict=True), strict=True):
        assert log_density(known, STEPS[list(pair)], taken) == pytest.approx(two, abs=0.01)


def test_observation_that_lies_far_off_is_left_out() -> None:
    values = [100.0, 100.2, 99.9, 70.0, 100.1, 99.8, 100.0]

    found = ValueEvidence(observed(values), STEPS, STEPS[:0], PRIOR, noise=NOISE)

    assert [0, 1, 2, 4, 5, 6] == found.retained.tolist()


@pytest.mark.parametrize("variants", [ONE_LAYOUT, (0, 0, 0, 0, 0, 1, 0)])
def test_layouts_share_the_probability_of_each_hypothesis(variants: Sequence[int]) -> None:
    known = observed([100.0, 101.0, 96.0, 95.0, 99.0, 100.5, 96.5], variants)

    views = ValueEvidence(known, STEPS, STEPS[:0], PRIOR, noise=NOISE).views

    assert sum(view.none for view in views) == pytest.approx(1)
    assert [1, 1, 1] == pytest.approx(sum(view.one for view in views).tolist())


def likely_layout(values: Sequence[float], variants: int) -> tuple[float, float]:
    """Return the most probable c and v of builds that did not change, each of which was measured often.

    :param values: in each layout of each build.
    """
    observations = [
        Observation(build, 0.0, (100 + value,), variant)
        for build in range(len(values) // variants)
        for variant in range(variants)
        for value in 4 * [values[build * variants + variant]]
    ]
    known = levels(observations)
    steps = np.zeros((3, len(known)))
    evidence = ValueEvidence(known, steps, steps[:0], PRIOR, noise=NOISE)
    layouts = list(evidence.field.layouts)
    return layouts[evidence.best % len(layouts)]


def test_difference_between_layouts_is_known_from_their_variants() -> None:
    drawn = np.random.default_rng(3).normal(size=24)

    assert (0.01, 1.0) == likely_layout(drawn.tolist(), variants=3)
    # The variants move the stack, for example, and commits move the code.
    assert (1.2, 0.01) == likely_layout(np.repeat(drawn, 3).tolist(), variants=3)
    assert (1.2, 0.0) == likely_layout(drawn.tolist(), variants=1)
