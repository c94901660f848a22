"""The difference under noise of any shape, which is estimated from the values of both builds.

A machine with two speeds gives two sharp levels to each build. A normal model treats their distance as noise.
Here the density of a value is a sum of kernels around the other values, those of the patch moved back by the
difference Δ (see :mod:`.paired_test`): it is large if Δ aligns the levels of both builds. The evidence is on
the scale of :class:`.Model`, so that both can be weighed by it.

Δ has a grid whose steps are 8 % of it, up to a factor of 50,000. A finer grid around the probable values
gives the size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perftrend.analysis.comparison.mixture import Mixture, log_sum
from perftrend.analysis.comparison.observations import PARENT, PATCH, Floats, Levels
from perftrend.analysis.comparison.paired_test import likelihood
from perftrend.analysis.comparison.priors import LEVEL_DEVIATION

_SIZES: Floats = 0.25 * np.power(1.08, np.arange(110, dtype=np.float64))
_DIFFERENCES: Floats = np.concatenate([-_SIZES[::-1], [0.0], _SIZES])
_STEPS: Floats = np.gradient(_DIFFERENCES)
_FINE = 81
"""Points of the finer grid."""
_IMPROBABLE = 1e-4
"""The finer grid excludes tails of this probability on either side."""


@dataclass(frozen=True, slots=True, eq=False)
class KernelFit:
    """Values of two builds, and the posterior of their difference if the noise has any shape."""

    parent: tuple[float, ...]
    patch: tuple[float, ...]
    evidence: float
    """Logarithm, in nats."""
    by_difference: Floats
    """Log-likelihood of the values for each Δ of the coarse grid."""

    def size(self) -> Mixture:
        """Return the posterior of the difference, in 100 ln(value)."""
        coarse = Mixture.of(self.by_difference, _DIFFERENCES, _STEPS**2 / 12)
        low, high = (coarse.quantile(level) for level in (_IMPROBABLE, 1 - _IMPROBABLE))
        fine = np.linspace(low, high, _FINE)
        step = float(fine[1] - fine[0])
        own = np.interp(fine, _DIFFERENCES, _STEPS)
        if step >= own.max():
            return coarse
        # The density is that of the coarse grid, where each point represents one step.
        weights = likelihood(self.parent, self.patch, fine) - np.log(own)
        return Mixture.of(weights, fine, np.full(_FINE, step**2 / 12))


def fit_kernels(levels: Levels) -> KernelFit:
    """Fit the noise to the values of two builds, whatever their difference is.

    :param levels: all levels of both builds, including far-off ones.
    """
    order = np.argsort(levels.at_h, kind="stable")
    y, builds = np.round(levels.y[order], 9), levels.builds[order]
    parent, patch = (tuple(y[builds == build].tolist()) for build in (PARENT, PATCH))
    by_difference = likelihood(parent, patch, _DIFFERENCES)
    level = -0.5 * math.log(2 * math.pi) - math.log(LEVEL_DEVIATION)
    evidence = float(log_sum(by_difference)) - math.log(by_difference.size) + level
    return KernelFit(parent, patch, evidence, by_difference)
