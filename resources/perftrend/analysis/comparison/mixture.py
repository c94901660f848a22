"""Mixtures of normal distributions: the posterior of a step's size, summed over the noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from perftrend.analysis.comparison.observations import Floats

NEGLIGIBLE = 1e-8
"""Parts with less weight are dropped."""

_REACH = 10.0
"""Distance from its mean, in its deviations, beyond which a part is negligible."""
_EXACT = 1e-6
"""Precision of quantiles, in deviations."""
_STEPS = 100
_ROOT = math.sqrt(2 * math.pi)

# Press et al., Numerical Recipes, section 6.2: erfc by a Chebyshev fit, to 1.2e-7 of itself.
_ERFC = (
    0.17087277,
    -0.82215223,
    1.48851587,
    -1.13520398,
    0.27886807,
    -0.18628806,
    0.09678418,
    0.37409196,
    1.00002368,
    -1.26551223,
)


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """Parts with weights that sum up to 1; each array has the shape (k,)."""

    weights: Floats
    means: Floats
    deviations: Floats

    @classmethod
    def of(cls, log_weights: Floats, means: Floats, variances: Floats) -> Mixture:
        """Return the mixture of arrays of equal shape, whose weights are logarithms up to a constant."""
        weights = np.exp(log_weights - log_weights.max()).ravel()
        retained = weights > NEGLIGIBLE
        weights = weights[retained]
        return cls(
            weights / float(weights.sum()), means.ravel()[retained], np.sqrt(variances.ravel()[retained])
        )

    @classmethod
    def combine(cls, parts: Sequence[tuple[float, Mixture]]) -> Mixture:
        """Combine mixtures by their weights, which sum up to 1."""
        used = [(weight, each) for weight, each in parts if weight > NEGLIGIBLE]
        weights = np.concatenate([weight * each.weights for weight, each in used])
        return cls(
            weights / float(weights.sum()),
            np.concatenate([each.means for _, each in used]),
            np.concatenate([each.deviations for _, each in used]),
        )

    def widen(self, variance: float) -> Mixture:
        """Return the mixture plus independent normal uncertainty around zero."""
        return Mixture(self.weights, self.means, np.sqrt(self.deviations**2 + variance))

    @property
    def mean(self) -> float:
        """The average."""
        return float(self.weights @ self.means)

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        spread = self.deviations**2 + (self.means - self.mean) ** 2
        return math.sqrt(float(self.weights @ spread))

    def below(self, value: float) -> float:
        """Return the probability of less than a value."""
        return float(self.weights @ normal_below((value - self.means) / self.deviations))

    def above(self, value: float) -> float:
        """Return the probability of more than a value; exact even if it is tiny."""
        return float(self.weights @ normal_below((self.means - value) / self.deviations))

    def quantile(self, probability: float) -> float:
        """Return the value that the quantity is below with a given probability between 0 and 1."""
        low = float((self.means - _REACH * self.deviations).min())
        high = float((self.means + _REACH * self.deviations).max())
        value = self.mean + self.deviation * NormalDist().inv_cdf(probability)
        for _ in range(_STEPS):
            scores = (value - self.means) / self.deviations
            excess = float(self.weights @ normal_below(scores)) - probability
            low, high = (low, value) if excess > 0 else (value, high)
            slope = float((self.weights / self.deviations) @ np.exp(-0.5 * scores**2)) / _ROOT
            # Newton's step, or bisection if that leaves the bracket.
            closer = value - excess / slope if slope else math.inf
            following = closer if low < closer < high else (low + high) / 2
            if abs(following - value) < _EXACT * self.deviation:
                return following
            value = following
        return value


def normal_below(scores: Floats) -> Floats:
    """Return the probability of a standard normal value below each score; relative error 1.2e-7 if small."""
    distance = np.abs(scores) / math.sqrt(2)
    t = 2 / (2 + distance)
    tail = 0.5 * t * np.exp(-(distance**2) + np.polyval(_ERFC, t))
    below: Floats = np.where(scores < 0, tail, 1 - tail)
    return below


def log_sum(logarithms: Floats, axis: int | tuple[int, ...] | None = None) -> Floats:
    """Return the logarithm of the sum of exponentials, over an axis or all."""
    top = logarithms.max(axis=axis, keepdims=True)
    summed = np.log(np.exp(logarithms - top).sum(axis=axis, keepdims=True)) + top
    squeezed: Floats = np.squeeze(summed, axis=axis)
    return squeezed
