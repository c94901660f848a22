"""The priors of the noise, of far-off runs, and of a step's size.

No estimate of the noise is assumed to be exact: the deviation between runs and the drift are summed over
grids. All deviations are in units of 100 ln(value), about per cent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perftrend import errors
from perftrend.analysis.comparison.observations import Floats

LEVEL_DEVIATION = 100.0
"""Of the level before the step, about the median: wide enough for a step of a factor of ten on both sides."""

KNOWN_WITHIN = 0.5
"""Accuracy of the deviation between runs by a history: one sigma of its logarithm."""


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
