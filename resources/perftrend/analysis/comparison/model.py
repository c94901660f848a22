r"""The evidence of measurements without a step, with one, and with two, and the prediction of one more.

With levels y of n observations at times t and errors e (see :mod:`.observations`), s the deviation between
runs, q the drift, steps of sizes Δ at positions of the order of builds, and aⱼ the vector that is 1 for the
observations from position j on,

    y = μ + Σ Δⱼ aⱼ + D(t) + noise,   cov = S = 100² 1 1ᵀ + q² min(t, t') + diag(s² + e),

for each (s, q) of the grid. One factorisation of S for each of them serves all hypotheses. With P = S⁻¹,
v the variance of a step's size, b = aᵀPy and D = 1/v + aᵀPa,

    log L(no step) = -½ (yᵀPy + log det S + n log 2π)
    log L(one)     = log L(no step) + ½ b²/D - ½ log(v D),        Δ \| y ~ N(b/D, 1/D),

and two steps the same with two by two matrices (Woodbury). With aᵀPb = c, the pulls e = aᵀPy and f = bᵀPy,
and the variances v, w of the two sizes,

    D = (aᵀPa + 1/v) (bᵀPb + 1/w) - c²,
    log L = log L(no step) + ½ ((bᵀPb + 1/w) e² - 2 c e f + (aᵀPa + 1/v) f²) / D - ½ log(v w D).

If at most one observation may be far off, L is multiplied by 1 + Σ fᵢ. With K the covariance under the
hypothesis, rᵢ = (K⁻¹y)ᵢ / (K⁻¹)ᵢᵢ is the distance of observation i from the prediction of all others, and
1/(K⁻¹)ᵢᵢ the variance of that prediction; fᵢ is how much more probable the observation is as a far-off run.
All sums are computed from logarithms.

At one point (s, q) of the grid everything is normal: an observation at time t* has the covariances
k = 100² + q² min(t, t*) with the others, plus v if both are after the step. Its mean is therefore kᵀK⁻¹y and
its variance k* - kᵀK⁻¹k. An experiment is more informative the further these means are apart, in deviations.

Source: Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, equations 2.25, 2.26, 2.30 and
5.12.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.comparison.distributions import (
    LEVEL_DEVIATION,
    STEPS_OF_COMMITS,
    FarOff,
    Mixture,
    NoiseGrid,
    Sizes,
    log_sum,
)
from perftrend.analysis.comparison.observations import Floats, Indices, Levels

Steps = NDArray[np.bool_]

NEGLIGIBLE = 20.0
"""Nats: evidence certainly further below the best, whichever observation is far off, is neglected."""
_LEAST_VARIANCE = 1e-6
"""Of one observation: a smaller one has no effect next to the variance of the level."""

_BLOCK = 128
"""Pairs that are computed at once, in some megabytes."""


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """Observations under every noise of a grid of g points; parts are those of the step's size.

    All evidence is a logarithm, in nats, and comparable between models of the same observations.
    """

    levels: Levels
    noise: NoiseGrid = field(default_factory=NoiseGrid)
    sizes: Sizes = STEPS_OF_COMMITS
    far_off: FarOff = field(default_factory=FarOff)
    of_one: Floats = field(init=False)
    """Variance of one observation, (g,)."""
    drifts: Floats = field(init=False)
    """q, (g,)."""
    precision: Floats = field(init=False)
    """P, (g, n, n)."""
    diagonal: Floats = field(init=False)
    """Of P, (g, n)."""
    pulled: Floats = field(init=False)
    """Py, (g, n)."""
    base: Floats = field(init=False)
    """Prior and evidence of each point without a step and without a far-off run, (g,)."""

    def __post_init__(self) -> None:
        s, q, prior = self.noise.grid()
        precision, log_determinant = _factorise(self.levels, s, q)
        pulled = precision @ self.levels.y
        squares = pulled @ self.levels.y
        constant = len(self.levels) * math.log(2 * math.pi)
        put = object.__setattr__
        put(self, "of_one", s**2 + float(self.levels.errors.mean()))
        put(self, "drifts", q)
        put(self, "precision", precision)
        put(self, "diagonal", np.einsum("gii->gi", precision))
        put(self, "pulled", pulled)
        put(self, "base", prior - 0.5 * (squares + log_determinant + constant))

    def none(self) -> float:
        """Return the evidence of no step."""
        return float(log_sum(self.base + self.gain(self.pulled, self.diagonal)))

    def one(self, steps: Steps) -> Floats:
        """Return the evidence of one step at each of j positions, shape (j,).

        :param steps: True for the observations after the step, shape (j, n).
        """
        # Positions between the same two measured builds are indistinguishable.
        distinct, place = np.unique(steps, axis=0, return_inverse=True)
        found = self.solve_steps(distinct)
        best = found.evidence.max(axis=(0, 2), keepdims=True)
        where = found.evidence + self.far_off.log_bound(found.alpha, found.precision) > best - NEGLIGIBLE
        evidence = found.evidence.copy()
        evidence[where] += self.gain(found.alpha[where], found.precision[where])
        return log_sum(evidence, axis=(0, 2))[place.ravel()]

    def size(self, step: Steps) -> Mixture:
        """Return the posterior of the size of a step, given that the step exists.

        :param step: shape (n,).
        """
        found = self.solve_steps(step[np.newaxis])
        a = found.pulled[:, 0]
        # Without observation i, by a downdate of rank one; the first column excludes none.
        none = np.zeros((a.shape[0], 1))
        weight = found.weight - np.concatenate([none, a**2 / self.diagonal], axis=1)
        pull = found.pull - np.concatenate([none, a * self.pulled / self.diagonal], axis=1)
        precision = weight[:, np.newaxis] + 1 / found.variances[..., np.newaxis]
        far_off = self.far_off.log_ratio(found.alpha[:, 0], found.precision[:, 0])
        log_weights = found.evidence[:, 0, :, np.newaxis] + np.pad(far_off, ((0, 0), (0, 0), (1, 0)))
        return Mixture.of(log_weights, pull[:, np.newaxis] / precision, 1 / precision)

    def far_off_given(self, steps: Steps, *, prior_none: float, prior_one: Floats) -> Floats:
        """Return the probability that each observation is far off, shape (n,).

        :param steps: shape (j, n).
        :param prior_none: logarithm of the prior probability of no step.
        :param prior_one: of one at each position, shape (j,).
        """
        found = self.solve_steps(steps)
        none = self.base + prior_none
        one = found.evidence + prior_one[:, np.newaxis]
        best = np.maximum(none.max(), one.max())
        where = one + self.far_off.log_bound(found.alpha, found.precision) > best - NEGLIGIBLE
        evidence = np.concatenate([none, one[where]])
        alpha = np.concatenate([self.pulled, found.alpha[where]])
        precision = np.concatenate([self.diagonal, found.precision[where]])
        far_off = self.far_off.log_ratio(alpha, precision)
        total = log_sum(evidence + log_gain(far_off))
        shares: Floats = np.exp(log_sum(evidence[:, np.newaxis] + far_off, axis=0) - total)
        return shares

    def solve_steps(self, steps: Steps) -> StepHypotheses:
        """Solve the hypotheses of one step at each of j positions, shape (j, n)."""
        design = steps.astype(np.float64)
        pulled = np.swapaxes(self.precision @ design.T, 1, 2)
        weight = np.einsum("gjn,jn->gj", pulled, design)
        pull = self.pulled @ design.T
        variances = self.sizes.variances(self.of_one)
        d = weight[..., np.newaxis] + 1 / variances[:, np.newaxis]
        moved = pull[..., np.newaxis] / d
        evidence = (
            self.base[:, np.newaxis, np.newaxis]
            + np.log(np.array(self.sizes.weights))
            + 0.5 * (pull[..., np.newaxis] * moved - np.log(variances[:, np.newaxis] * d))
        )
        each = pulled[:, :, np.newaxis]
        alpha = self.pulled[:, np.newaxis, np.newaxis] - each * moved[..., np.newaxis]
        precision = self.diagonal[:, np.newaxis, np.newaxis] - each * each / d[..., np.newaxis]
        return StepHypotheses(pulled, weight, pull, variances, evidence, alpha, precision)

    def gain(self, alpha: Floats, precision: Floats) -> Floats:
        """Return the gain of the evidence if one observation, or none, may be far off, shape (…).

        :param alpha: K⁻¹y under any hypothesis, shape (…, n).
        :param precision: the diagonal of K⁻¹, the same shape.
        """
        return log_gain(self.far_off.log_ratio(alpha, precision))


@dataclass(frozen=True, slots=True, eq=False)
class StepHypotheses:
    """Hypotheses of one step, at g points of the grid, j positions and k parts of the size."""

    pulled: Floats
    """Pa, (g, j, n)."""
    weight: Floats
    """aᵀPa, (g, j)."""
    pull: Floats
    """aᵀPy, (g, j)."""
    variances: Floats
    """v, (g, k)."""
    evidence: Floats
    """Including the prior, without a far-off run, (g, j, k)."""
    alpha: Floats
    """K⁻¹y, (g, j, k, n)."""
    precision: Floats
    """The diagonal of K⁻¹, (g, j, k, n)."""


def log_gain(far_off: Floats) -> Floats:
    """Return log(1 + Σ f) over the last axis, given the logarithms of f."""
    top = np.maximum(far_off.max(axis=-1), 0.0)
    gain: Floats = top + np.log(np.exp(-top) + np.exp(far_off - top[..., np.newaxis]).sum(axis=-1))
    return gain


def two_steps(model: Model, steps: Steps, first: Indices, second: Indices) -> Floats:
    """Return the evidence of two steps of independent sizes, for each of m pairs, shape (m,).

    One observation may be far off, as in :meth:`.Model.one`. This takes about 0.3 ms per pair for 40
    observations: for a long range, pass promising pairs only.

    :param steps: shape (j, n).
    :param first: index of one step of each pair, shape (m,).
    :param second: index of the other step, which must differ.
    """
    blocks = range(0, len(first), _BLOCK)
    parts = [_block(model, steps, first[i : i + _BLOCK], second[i : i + _BLOCK]) for i in blocks]
    return np.concatenate([np.empty(0), *parts])


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """Means and variances of an observation's level, on the scale of :attr:`.Levels.y`.

    The parts of a step's size are separate: k of them, for j positions.
    """

    mean_none: float
    variance_none: float
    weights: Floats
    """How probable each part of the size is, given the step, (j, k)."""
    means: Floats
    """Index 0: of an observation before the step, 1: after it; (2, j, k)."""
    variances: Floats
    """The same shape."""


def best_point(model: Model, steps: Steps) -> int:
    """Return the point of the grid that is most probable if all hypotheses have the same prior.

    :param steps: shape (j, n).
    """
    found = model.solve_steps(steps)
    gain = model.gain(found.alpha, found.precision)
    none = model.base + model.gain(model.pulled, model.diagonal)
    return int(np.argmax(np.logaddexp(none, log_sum(found.evidence + gain, axis=(1, 2)))))


def predict(model: Model, steps: Steps, *, at_h: float, point: int) -> Prediction:
    """Predict one more observation, with as many samples as the others.

    :param steps: shape (j, n).
    :param at_h: when, in hours since the same point in time as the observations.
    :param point: of the grid, see :func:`best_point`.
    """
    known, found = model.levels, model.solve_steps(steps)
    level, walk = LEVEL_DEVIATION**2, float(model.drifts[point]) ** 2
    later = at_h - known.origin_h
    shared = level + walk * np.minimum(known.at_h, later)
    own = level + walk * later + float(model.of_one[point])
    moved = model.precision[point] @ shared
    mean_none = float(shared @ model.pulled[point])
    variance_none = own - float(shared @ moved)
    # After the step v is added to the covariances; before it, nothing is.
    v = np.stack([np.zeros_like(found.variances[point]), found.variances[point]])[:, np.newaxis]
    weight, pull = found.weight[point][:, np.newaxis], found.pull[point][:, np.newaxis]
    met = (steps @ moved)[:, np.newaxis]
    d = weight + 1 / found.variances[point]
    reached = met + v * weight
    evidence = found.evidence[point]
    return Prediction(
        mean_none=mean_none,
        variance_none=variance_none,
        weights=np.exp(evidence - log_sum(evidence, axis=1)[:, np.newaxis]),
        means=mean_none + v * pull - reached * pull / d,
        variances=variance_none + v - 2 * v * met - v**2 * weight + reached**2 / d,
    )


def _factorise(levels: Levels, s: Floats, q: Floats) -> tuple[Floats, Floats]:
    """Return P, (g, n, n), and log det S, (g,)."""
    walk = np.minimum.outer(levels.at_h, levels.at_h)
    own = np.maximum(s[:, np.newaxis] ** 2 + levels.errors, _LEAST_VARIANCE)
    covariance = LEVEL_DEVIATION**2 + q[:, np.newaxis, np.newaxis] ** 2 * walk
    index = np.arange(len(levels))
    covariance[:, index, index] += own
    root = np.linalg.cholesky(covariance)
    log_determinant: Floats = 2 * np.log(np.einsum("gii->gi", root)).sum(axis=1)
    precision = np.linalg.inv(covariance).astype(np.float64, copy=False)
    return precision, log_determinant


def _block(model: Model, steps: Steps, first: Indices, second: Indices) -> Floats:
    design = steps.astype(np.float64)
    pulled = model.precision @ design.T
    inner = design @ pulled
    pull = model.pulled @ design.T
    own = np.einsum("gjj->gj", inner)
    cross = inner[:, first, second]
    e, f = pull[:, first], pull[:, second]
    sizes = list(zip(model.sizes.variances(model.of_one).T, np.log(model.sizes.weights), strict=True))
    solved = []
    for (v, log_v), (w, log_w) in itertools.product(sizes, repeat=2):
        a, b = own[:, first] + 1 / v[:, np.newaxis], own[:, second] + 1 / w[:, np.newaxis]
        inverse = np.stack([b, a, -cross]) / (a * b - cross**2)
        moved = np.stack([inverse[0] * e + inverse[2] * f, inverse[1] * f + inverse[2] * e])
        spread = np.log((v * w)[:, np.newaxis] * (a * b - cross**2))
        evidence = model.base[:, np.newaxis] + log_v + log_w + 0.5 * (e * moved[0] + f * moved[1] - spread)
        solved.append((evidence, moved, inverse))
    best = np.max([evidence.max(axis=0) for evidence, _, _ in solved], axis=0)
    one = np.swapaxes(pulled[:, :, first], 1, 2)
    other = np.swapaxes(pulled[:, :, second], 1, 2)
    for evidence, moved, inverse in solved:
        of_one, of_other = moved[..., np.newaxis]
        alpha = model.pulled[:, np.newaxis] - one * of_one - other * of_other
        of_one, of_other, of_both = inverse[..., np.newaxis]
        explained = one**2 * of_one + other**2 * of_other + 2 * one * other * of_both
        precision = model.diagonal[:, np.newaxis] - explained
        where = evidence + model.far_off.log_bound(alpha, precision) > best - NEGLIGIBLE
        evidence[where] += model.gain(alpha[where], precision[where])
    return log_sum(np.stack([evidence for evidence, _, _ in solved]), axis=(0, 1))
