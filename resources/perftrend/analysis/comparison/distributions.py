"""Distributions of a comparison: the priors of noise, of far-off runs and of a step's size, and mixtures.

No estimate of the noise is assumed to be exact: the deviation between runs and the drift are summed over
grids. All deviations are in units of 100 ln(value), about per cent. The posterior of a step's size, summed
over the noise, is a mixture of normal distributions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from perftrend import errors
from perftrend.analysis.comparison.observations import Floats

LEVEL_DEVIATION = 100.0
"""Of the level before the step, about the median: wide enough for a step of a factor of ten on both sides."""

KNOWN_WITHIN = 0.5
"""Accuracy of the deviation between runs by a history: one sigma of its logarithm."""

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


@dataclass(frozen=True, slots=True)
class NoiseGrid:
    """Grids of the deviation s between runs, and of the drift q, a random walk."""

    deviations: tuple[float, ...] = tuple(float(s) for s in 0.1 * 1.5 ** np.arange(11))
    """s, in per cent, evenly in the logarithm: 0.1 to 5.8."""
    known_deviation: float | None = None
    """s by the history of the trace, in per cent; None for equal probabilities of the grid."""
    drifts: tuple[float, ...] = (0.05, 0.5, 1.5, 4.0)
    """q, in per cent per square root of an hour."""
    drift_weights: tuple[float, ...] = (0.4, 0.3, 0.2, 0.1)

    def __post_init__(self) -> None:
        if self.known_deviation is not None and not 0 < self.known_deviation < math.inf:
            raise errors.SettingsError(
                f"known_deviation is {self.known_deviation}; "
                "give the deviation between runs in per cent, above 0"
            )

    def grid(self) -> tuple[Floats, Floats, Floats]:
        """Return s, q and the logarithm of their prior probability, each of shape (g,)."""
        deviations = np.array(self.deviations)
        weights = np.zeros(deviations.size)
        if self.known_deviation is not None:
            # Centre the grid on the history, whatever the noise of the testbed is.
            deviations = self.known_deviation * np.exp(KNOWN_WITHIN * np.linspace(-3, 3, 11))
            weights = -0.5 * (np.log(deviations / self.known_deviation) / KNOWN_WITHIN) ** 2
        weights = weights - np.logaddexp.reduce(weights)
        s, q = np.meshgrid(deviations, np.array(self.drifts), indexing="ij")
        prior = weights[:, np.newaxis] + np.log(np.array(self.drift_weights))
        return s.ravel(), q.ravel(), prior.ravel()


@dataclass(frozen=True, slots=True)
class FarOff:
    """Far-off runs: a fraction of all, at distances with exponential decay."""

    share: float = 0.02
    distance: float = 20.0
    """The mean distance, in per cent."""
    below: float = 0.8
    """The fraction of them that is below the expected value."""

    @property
    def _odds(self) -> float:
        return math.log(self.share / (1 - self.share) / self.distance) + 0.5 * math.log(2 * math.pi)

    def log_density(self, residuals: Floats) -> Floats:
        """Return the logarithm of the density of runs as far-off ones, times their fraction of all.

        :param residuals: distances from the expected value, in per cent.
        """
        sides = np.where(residuals < 0, self.below, 1 - self.below)
        density: Floats = np.log(self.share / self.distance * sides) - np.abs(residuals) / self.distance
        return density

    def log_ratio(self, pulled: Floats, precisions: Floats) -> Floats:
        """Return how much more probable each residual is as a far-off run than as noise, in nats.

        :param pulled: distances from the prediction of the others, times their precisions, any shape.
        :param precisions: one over the variance of that prediction, the same shape.
        """
        residuals = pulled / precisions
        below, above = math.log(self.below), math.log(1 - self.below)
        ratio = residuals * residuals
        ratio *= precisions
        ratio -= np.log(precisions)
        ratio *= 0.5
        ratio -= np.abs(residuals) / self.distance
        ratio += self._odds + (below + above) / 2
        ratio -= np.copysign((below - above) / 2, residuals)
        return ratio

    def log_bound(self, pulled: Floats, precisions: Floats) -> Floats:
        """Return an upper bound of the logarithm of the sum of all ratios over the last axis, at least 0.

        :param pulled: residuals times their precisions.
        :param precisions: of the same shape.
        """
        squares = pulled * pulled
        squares /= precisions
        least = precisions.min(axis=-1)
        side = math.log(max(self.below, 1 - self.below) * squares.shape[-1])
        bound: Floats = side + self._odds + 0.5 * (squares.max(axis=-1) - np.log(least))
        return np.maximum(bound, 0.0, out=bound)


@dataclass(frozen=True, slots=True)
class Sizes:
    """A step's size: a mixture of normal distributions about zero."""

    scales: tuple[float, ...] = (3.0, 15.0)
    """Deviations, in per cent; of the relative ones, in deviations of one observation."""
    weights: tuple[float, ...] = (0.5, 0.5)
    relative: tuple[bool, ...] = (False, False)
    """Whether a scale counts in deviations of one observation instead of per cent."""

    def variances(self, of_one: Floats) -> Floats:
        """Return the variance of each part for each point of the grid, shape (g, parts).

        :param of_one: variance of one observation at each point of the grid, shape (g,).
        """
        squares = np.array(self.scales) ** 2
        return np.where(self.relative, squares * of_one[:, np.newaxis], squares)


STEPS_OF_COMMITS = Sizes()
"""The steps that are suspected in a range of commits: see :mod:`perftrend.bisect`."""


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

    def of_sign(self, sign: float) -> Mixture:
        """Return the parts whose mean is above 0, or below 0 if ``sign`` is negative; all if none is."""
        retained = self.means * sign > 0
        if not retained.any():
            return self
        weights = self.weights[retained]
        return Mixture(weights / float(weights.sum()), self.means[retained], self.deviations[retained])

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
