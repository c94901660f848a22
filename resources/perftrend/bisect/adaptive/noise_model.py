r"""Measurements of one test under each kind of noise, and the effect of a change in each class.

The level y of each measurement, at time t and with the error e (see
:mod:`perftrend.analysis.comparison.observations`), is

    y = μ + Σ Δ a + D(t) + noise,   S = 100² 1 1ᵀ + q² min(t, t') + c² [same commit] + diag(s² + e) + X,

where a is 1 for measurements of commits that contain the change, s the deviation between runs, q the drift,
and c the deviation between commits that change nothing. X covers changes that were already found. The noise
is not estimated: results are summed over a grid of (s, q, c). All hypotheses share P = S⁻¹.

Multiples of uuᵀ that are large compared with the rest are added to the inverse, not to S: elimination would
lose the rest.

Source: Golub and Van Loan, Matrix Computations, section 2.1 (the formula of Sherman, Morrison and Woodbury).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from perftrend.analysis.comparison.distributions import LEVEL_DEVIATION, FarOff, NoiseGrid, log_sum
from perftrend.analysis.comparison.observations import Floats, Levels

SIZES = np.array([3.0, 15.0, 150.0]) ** 2
"""Variances of a change's size, in squares of about per cent: small ones, large ones, and collapses."""
SIZE_WEIGHTS = np.log([0.475, 0.475, 0.05])
"""Logarithms of their probabilities."""
FLAT_VARIANCE = LEVEL_DEVIATION**2
"""Prior variance of the level, and of the size of a change that was found."""
EXPECTED_DEVIATION, DEVIATION_SPREAD = 0.8, 1.0
"""Deviation between runs, in per cent, and the spread of its logarithm, for tests without a history."""
LAYOUTS, LAYOUT_WEIGHTS = (0.01, 0.5, 1.2), (0.85, 0.1, 0.05)
"""Deviations between builds that change nothing, in about per cent: the code has another memory layout."""
FEWEST_BUILDS = 5
"""With fewer builds, their deviation without a change cannot be estimated, and is assumed negligible."""


_IMPOSSIBLE = 1e-300


class Grid(NamedTuple):
    """The grid of g kinds of noise, in per cent."""

    runs: Floats
    """s, the deviation between runs, (g,)."""
    drift: Floats
    """q, the deviation of the random walk per square root of an hour."""
    layout: Floats
    """c, the deviation between commits that change nothing."""
    prior: Floats
    """Logarithm of the probability."""


@dataclass(frozen=True, eq=False)
class Field:
    """Observations under each noise of the grid, g points, and steps at j classes."""

    levels: Levels
    steps: Floats
    """a of each class, (j, n)."""
    found: Floats
    """a of the changes that were already found, (f, n)."""
    noise: NoiseGrid
    far_off: FarOff

    @cached_property
    def grid(self) -> Grid:
        """The points of the grid."""
        s, q, prior = self.noise.grid()
        if self.noise.known_deviation is None:
            prior = prior - 0.5 * (np.log(s / EXPECTED_DEVIATION) / DEVIATION_SPREAD) ** 2
        count = len(LAYOUTS)
        can_be_known = np.unique(self.levels.builds).size >= FEWEST_BUILDS
        weights = np.log(LAYOUT_WEIGHTS if can_be_known else (1.0, *(count - 1) * (_IMPOSSIBLE,)))
        prior = np.add.outer(prior - log_sum(prior), weights).ravel()
        return Grid(np.repeat(s, count), np.repeat(q, count), np.tile(LAYOUTS, s.size), prior)

    @cached_property
    def precision(self) -> Floats:
        """P, (g, n, n)."""
        return self._inverse[0]

    @cached_property
    def _inverse(self) -> tuple[Floats, Floats]:
        s, q, c, _ = self.grid
        walk = np.minimum.outer(self.levels.at_h, self.levels.at_h)
        same = np.equal.outer(self.levels.builds, self.levels.builds)
        covariance = np.multiply.outer(q**2, walk)
        covariance += np.multiply.outer(c**2, same)
        index = np.arange(len(self.levels))
        covariance[:, index, index] += np.add.outer(s**2, self.levels.errors)
        flat = np.concatenate([np.ones((1, index.size)), self.found])
        return update_inverse(*inverse(covariance), flat, FLAT_VARIANCE)

    @cached_property
    def pulled(self) -> Floats:
        """Py, (g, n)."""
        return self.precision @ self.levels.y

    @cached_property
    def base(self) -> Floats:
        """Prior and evidence of each point without a step, (g,)."""
        constant = len(self.levels) * math.log(2 * math.pi)
        squares = self.pulled @ self.levels.y
        result: Floats = self.grid.prior - 0.5 * (squares + self._inverse[1] + constant)
        return result

    @cached_property
    def moved(self) -> Floats:
        """Pa, (g, j, n)."""
        return np.ascontiguousarray(np.swapaxes(self.precision @ self.steps.T, 1, 2))

    @cached_property
    def weight(self) -> Floats:
        """aᵀPa', (g, j, j)."""
        return self.moved @ self.steps.T

    @cached_property
    def pull(self) -> Floats:
        """b, (g, j)."""
        return self.pulled @ self.steps.T

    def run_variance(self, point: int) -> float:
        """Return the variance of one run at a point of the grid, both between runs and within them."""
        return float(self.grid.runs[point] ** 2 + self.levels.errors.mean())

    @cached_property
    def diagonal(self) -> Floats:
        """The diagonal of P, (g, n)."""
        diagonal: Floats = np.einsum("gii->gi", self.precision)
        return diagonal

    def rho(self, alpha: Floats, precision: Floats) -> Floats:
        """Return the log ratio of the probabilities of each observation as an outlier and as a usual run."""
        return self.far_off.log_ratio(alpha, precision)


def inverse(covariance: Floats) -> tuple[Floats, Floats]:
    """Return the inverses, (g, n, n), and the logarithms of the determinants, (g,).

    :param covariance: positive definite, (g, n, n).
    :raises LinAlgError: if one is not positive definite.
    """
    root = np.linalg.cholesky(covariance)
    log_determinant = 2 * np.log(np.einsum("gii->gi", root)).sum(axis=1)
    return np.asarray(np.linalg.inv(covariance), np.float64), log_determinant


def update_inverse(
    precision: Floats, log_determinant: Floats, design: Floats, variance: float
) -> tuple[Floats, Floats]:
    """Return the inverses and log determinants of S + variance Σ uuᵀ, given those of S.

    :param precision: (g, n, n).
    :param log_determinant: (g,).
    :param design: the vectors u, (f, n).
    """
    pulled = precision @ design.T
    inner = design @ pulled + np.eye(len(design)) / variance
    inverses, determinants = inverse(inner)
    return (
        precision - pulled @ inverses @ np.swapaxes(pulled, 1, 2),
        log_determinant + determinants + len(design) * np.log(variance),
    )
