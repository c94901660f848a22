"""The power of a measurement: the estimate of a difference, its error, and the smallest one that decides.

The estimate is that of the measurement alone, by generalised least squares: for each noise of the grid
aᵀPy / aᵀPa with variance 1 / aᵀPa, averaged over the posterior of the noise. To evaluate another estimate,
the observations of the patch are shifted as a whole, which does not change what they show of the noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from perftrend.analysis.comparison.mixture import Mixture, log_sum
from perftrend.analysis.comparison.model import Model, Steps
from perftrend.analysis.comparison.observations import Floats

_HALVINGS = 12


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """The size of a step by the measurement alone, in 100 ln(value)."""

    size: float
    error: float
    """Its standard error."""
    model: Model
    weight: Floats
    """aᵀPa, (g,)."""
    pull: Floats
    """aᵀPy, (g,)."""

    def posterior_given(self, size: float) -> Mixture:
        """Return the posterior of the step if its estimate had been another one."""
        shift = size - self.size
        pull = self.pull + shift * self.weight
        base = self.model.base - shift * (self.pull + 0.5 * shift * self.weight)
        variances = self.model.sizes.variances(self.model.of_one)
        d = self.weight[:, np.newaxis] + 1 / variances
        means = pull[:, np.newaxis] / d
        log_weights = (
            base[:, np.newaxis]
            + np.log(np.array(self.model.sizes.weights))
            + 0.5 * (pull[:, np.newaxis] * means - np.log(variances * d))
        )
        return Mixture.of(log_weights, means, 1 / d)

    def least(self, decides: Callable[[Mixture], bool], *, sign: float) -> float:
        """Return the smallest absolute size of an estimate that decides.

        :param decides: whether a step would be shown; if so, larger steps must be shown too.
        :param sign: of the steps to try, 1 or -1.
        """
        high = max(2 * self.error, 1e-6)
        while not decides(self.posterior_given(sign * high)) and high < 1e4:  # noqa: PLR2004 - beyond any ratio
            high *= 2
        low = 0.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if decides(self.posterior_given(sign * middle)):
                high = middle
            else:
                low = middle
        return high


def estimate_size(model: Model, step: Steps) -> Estimate:
    """Estimate the size of a step.

    :param step: True for the observations after it, shape (n,).
    """
    design = step.astype(np.float64)
    weight = np.einsum("gnm,n,m->g", model.precision, design, design)
    pull = model.pulled @ design
    # With a flat prior of the size, each noise is as probable as its residuals.
    log_weights = model.base + 0.5 * (pull**2 / weight - np.log(weight))
    weights = np.exp(log_weights - log_sum(log_weights))
    size = float(weights @ (pull / weight))
    error = math.sqrt(float(weights @ (1 / weight)))
    return Estimate(size, error, model, weight, pull)
