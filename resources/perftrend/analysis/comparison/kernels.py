"""A difference under noise of any shape: what both builds have in common is learned from their values.

A machine of two speeds gives two sharp levels to each build. A normal model takes their distance for noise.
Here the density of a value is a sum of kernels around the others, those of the patch moved back by the
difference Δ (see :mod:`.paired`): it is large where Δ brings the levels of both builds together. The evidence
is on the scale of :class:`.Model`, so that both may be weighed by it.

Δ has a grid whose steps are 8 % of it, up to a factor of 50,000. A finer one around what is probable gives
the size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perftrend.analysis.comparison.mixture import Mixture, log_sum
from perftrend.analysis.comparison.observations import PARENT, PATCH, Floats, Levels
from perftrend.analysis.comparison.paired import likelihood
from perftrend.analysis.comparison.priors import LEVEL_DEVIATION

_SIZES: Floats = 0.25 * np.power(1.08, np.arange(110, dtype=np.float64))
_DIFFERENCES: Floats = np.concatenate([-_SIZES[::-1], [0.0], _SIZES])
_STEPS: Floats = np.gradient(_DIFFERENCES)
_FINE = 81
"""Points of the finer grid."""
_IMPROBABLE = 1e-4
"""What is beyond on either side has no part in the finer grid."""


@dataclass(frozen=True, slots=True, eq=False)
class KernelFit:
    """Values of two builds, and what is known of their difference if the noise has any shape."""

    parent: tuple[float, ...]
    patch: tuple[float, ...]
    evidence: float
    """Logarithm, in nats."""
    by_difference: Floats
    """Logarithm of how probable the values are for each Δ of the coarse grid."""

    def size(self) -> Mixture:
        """Return what is known of the difference, in 100 ln(value)."""
        coarse = Mixture.of(self.by_difference, _DIFFERENCES, _STEPS**2 / 12)
        low, high = (coarse.quantile(level) for level in (_IMPROBABLE, 1 - _IMPROBABLE))
        fine = np.linspace(low, high, _FINE)
        step = float(fine[1] - fine[0])
        own = np.interp(fine, _DIFFERENCES, _STEPS)
        if step >= own.max():
            return coarse
        # As probable as on the coarse grid, of which each point stands for one step.
        weights = likelihood(self.parent, self.patch, fine) - np.log(own)
        return Mixture.of(weights, fine, np.full(_FINE, step**2 / 12))


def fit_kernels(levels: Levels) -> KernelFit:
    """Learn the noise from values of two builds, whichever difference they have.

    :param levels: of both builds; none is left out.
    """
    order = np.argsort(levels.at_h, kind="stable")
    y, builds = np.round(levels.y[order], 9), levels.builds[order]
    parent, patch = (tuple(y[builds == build].tolist()) for build in (PARENT, PATCH))
    by_difference = likelihood(parent, patch, _DIFFERENCES)
    level = -0.5 * math.log(2 * math.pi) - math.log(LEVEL_DEVIATION)
    evidence = float(log_sum(by_difference)) - math.log(by_difference.size) + level
    return KernelFit(parent, patch, evidence, by_difference)
