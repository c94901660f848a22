"""Step fits: how much a window of runs around each commit looks like a step.

The window of a commit holds the ``radius`` runs before it and the same number from it on; runs without
a value are skipped. The result of the fit is one statistic per commit, by one of the
methods of :class:`StepMethod`. Positive is a progression and negative is a regression, whatever the trace
counts: which direction is good belongs to the trace.

Source: "Skia Perf: Design", section Clustering, for the original fit; the other methods are those
that the successors of that system offer for single traces.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from math import comb, erfc, sqrt

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from perftrend import errors
from perftrend.model import Better, Samples

ORIGINAL_CUTOFF = 150.0
"""|Regression| above which a centroid is interesting, by the Skia Perf convention."""

_ROUNDING = 1e-12
"""A deviation of at most this fraction of the step counts as 0."""

_EXACT_SIZE = 25
"""The most runs on each side for which the Mann-Whitney distribution is exact, not approximate."""


class StepMethod(StrEnum):
    """The statistic of a window; L and R are the averages before and from the commit on."""

    ORIGINAL = "original"
    """(R - L) / lse with lse = √(SSE before + SSE after) / n. About √n times the step in sigmas, meant
    for centroids, whose noise is small. The window has one more run at its end."""
    CORRECTED = "corrected"
    """(R - L) / (s √(1/n₁ + 1/n₂)) with s² = (SSE before + SSE after) / (n - 2): Student's t, whose
    distribution without a step is known. About half of the original one."""
    ABSOLUTE = "absolute"
    """R - L, in the unit of the samples."""
    PERCENT = "percent"
    """(R - L) / L, a ratio."""
    COHEN = "cohen"
    """(R - L) / s with s the average of the two sample standard deviations: Cohen's d."""
    MANN_WHITNEY = "mann-whitney"
    """The two-sided probability of the ranks if nothing has changed; small is interesting."""
    CONSTANT = "constant"
    """The value of the commit itself, to be compared with a constant that it must not reach."""


@dataclass(frozen=True, slots=True, eq=False)
class StepFits:
    """The fit of every commit's window, arrays of shape (n,), NaN if there is no whole window."""

    method: StepMethod
    better: Better
    step: Samples
    """R - L in the unit of the samples, its sign reversed if lower is better."""
    lse: Samples
    """√(SSE before + SSE after) / n, the least squares error of the original fit."""
    statistic: Samples
    """The statistic of the method. Infinite if there is a step without any noise."""

    def mark_interesting(self, cutoff: float) -> NDArray[np.int8]:
        """Mark the windows beyond the cutoff: 1 is a progression, -1 is a regression, 0 is neither.

        :param cutoff: for Mann-Whitney the largest probability, for a constant the value that
            must not be reached (always a regression), else the least |statistic|.
        """
        with np.errstate(invalid="ignore"):
            if self.method is StepMethod.CONSTANT:
                reached = (
                    self.statistic <= cutoff if self.better is Better.HIGHER else self.statistic >= cutoff
                )
                return -reached.astype(np.int8)
            if self.method is StepMethod.MANN_WHITNEY:
                beyond = self.statistic <= cutoff
            else:
                beyond = np.abs(self.statistic) >= cutoff
            return np.where(beyond, np.sign(np.nan_to_num(self.step)), 0).astype(np.int8)


@dataclass(frozen=True, slots=True)
class StepFit:
    """The best step in a whole curve, such as the centroid of a cluster."""

    position: int
    """The first position after the step."""
    step: float
    """Average after less average before, its sign reversed if lower is better."""
    lse: float
    regression: float
    """step / lse: negative is a regression; infinite if the curve is an exact step."""


def step_fits(samples: ArrayLike, *, radius: int, better: Better, method: StepMethod) -> StepFits:
    """Fit a step at the middle of every commit's window.

    :param samples: run averages, shape (n,), any unit; values that are not finite are skipped.
    :param radius: runs on each side, at least 2.
    :param better: which direction of the trace is good.
    :param method: a :class:`StepMethod` or its name.
    :returns: arrays of shape (n,).
    :raises SettingsError: if the radius is below 2 or no method has that name.
    """
    if radius < 2:  # noqa: PLR2004 - one run has no deviation
        raise errors.SettingsError(f"step fit: radius is {radius} runs; give at least 2")
    if method not in set(StepMethod):
        known = errors.nearest(method, [each.value for each in StepMethod])
        raise errors.SettingsError(f"step fit: no method is named {method!r}{known}")
    method = StepMethod(method)
    values = np.asarray(samples, dtype=np.float64)
    present = np.flatnonzero(np.isfinite(values))
    length = 2 * radius + (method is StepMethod.ORIGINAL)
    step, lse, statistic = (np.full(values.size, np.nan) for _ in range(3))
    if present.size >= length:
        windows = sliding_window_view(values[present], length)
        commits = present[radius : radius + len(windows)]
        step[commits], lse[commits], statistic[commits] = _fit(windows, radius, method)
    if better is Better.LOWER:
        step = -step
        if method not in {StepMethod.MANN_WHITNEY, StepMethod.CONSTANT}:
            statistic = -statistic
    return StepFits(method, better, step, lse, statistic)


def best_step(curve: ArrayLike, *, better: Better) -> StepFit:
    """Fit a step to a whole curve, at the position with the least squares error.

    :param curve: values without gaps, shape (n,) with n at least 2.
    :param better: which direction of the curve is good.
    :raises SettingsError: if the curve has gaps or fewer than two values.

    Source: "Skia Perf: Design", section Clustering: Regression = StepSize / LeastSquaresError.
    """
    values = np.asarray(curve, dtype=np.float64)
    if values.ndim != 1 or values.size < 2 or not np.isfinite(values).all():  # noqa: PLR2004 - two sides
        raise errors.SettingsError("step fit: a curve needs at least two values and no gaps; fill them first")
    offsets = values - values.mean()
    before = np.arange(1, values.size)
    sums = np.cumsum(offsets)[:-1]
    # The part of the squares about the common average that a split explains: the rest is the error.
    explained = sums**2 * (1 / before + 1 / (values.size - before))
    split = int(np.argmax(explained)) + 1
    left, right = values[:split], values[split:]
    step = float(right.mean() - left.mean()) * (1 if better is Better.HIGHER else -1)
    lse = sqrt(_squares(left) + _squares(right)) / values.size
    return StepFit(split, step, lse, float(_ratio(np.array(step), np.array(lse))))


def _squares(values: Samples) -> float:
    return float(((values - values.mean()) ** 2).sum())


def _fit(windows: Samples, radius: int, method: StepMethod) -> tuple[Samples, Samples, Samples]:
    """Return step, lse and statistic of windows, shape (m, length), as if higher is better."""
    # Relative to its first run a window of equal values has exactly no step and no deviation.
    offsets = windows - windows[:, :1]
    left, right = offsets[:, :radius], offsets[:, radius:]
    step = right.mean(axis=1) - left.mean(axis=1)
    squares_left, squares_right = left.var(axis=1) * radius, right.var(axis=1) * right.shape[1]
    squares, length = squares_left + squares_right, windows.shape[1]
    lse = np.sqrt(squares) / length
    match method:
        case StepMethod.ORIGINAL:
            statistic = _ratio(step, lse)
        case StepMethod.CORRECTED:
            sides = 1 / radius + 1 / right.shape[1]
            statistic = _ratio(step, np.sqrt(squares / (length - 2) * sides))
        case StepMethod.ABSOLUTE:
            statistic = step
        case StepMethod.PERCENT:
            statistic = _ratio(step, np.abs(windows[:, :radius].mean(axis=1)))
        case StepMethod.COHEN:
            deviations = np.sqrt(squares_left / (radius - 1)) + np.sqrt(squares_right / (radius - 1))
            statistic = _ratio(step, deviations / 2)
        case StepMethod.MANN_WHITNEY:
            statistic = _mann_whitney(left, right)
        case StepMethod.CONSTANT:
            statistic = windows[:, radius]
    return step, lse, statistic


def _ratio(step: Samples, scale: Samples) -> Samples:
    """Divide; no step is 0, and any step is infinite if the scale is only rounding."""
    exact = np.where(scale > _ROUNDING * np.abs(step), scale, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(step == 0, 0.0, step / exact)


def _mann_whitney(left: Samples, right: Samples) -> Samples:
    """Return the two-sided probability of U, shape (m,), for sides of one size.

    Exact if no two values of a window are equal and the sides are small, else by the normal
    approximation with the correction for ties and for continuity.

    Source: Mann and Whitney, On a test of whether one of two random variables is stochastically
    larger than the other, 1947.
    """
    size = left.shape[1]
    above = (np.sign(right[:, :, np.newaxis] - left[:, np.newaxis, :]).sum(axis=(1, 2)) + size**2) / 2
    least = np.minimum(above, size**2 - above)
    ranked = np.sort(np.concatenate([left, right], axis=1), axis=1)
    counted = (np.diff(ranked, axis=1) > 0).all(axis=1) & (size <= _EXACT_SIZE)
    chance = np.empty(len(left))
    if counted.any():
        chance[counted] = np.minimum(2 * _tail(size)[least[counted].astype(np.int64)], 1.0)
    for row in np.flatnonzero(~counted):
        chance[row] = _normal_tail(float(least[row]), _tie_term(ranked[row]), size)
    return chance


@cache
def _tail(size: int) -> Samples:
    """Return the probability that U is at most 0, 1, … size² for two sides of one size."""
    ways = np.zeros((size + 1, size**2 + 1))
    ways[0, 0] = 1.0
    for rank in range(1, 2 * size + 1):
        for chosen in range(min(rank, size), 0, -1):
            below = rank - chosen
            if below <= size:
                ways[chosen, below:] += ways[chosen - 1, : size**2 + 1 - below]
    return np.cumsum(ways[size]) / comb(2 * size, size)


def _tie_term(ranked: Samples) -> float:
    _, counts = np.unique(ranked, return_counts=True)
    return float((counts**3 - counts).sum())


def _normal_tail(least: float, ties: float, size: int) -> float:
    total = 2 * size
    variance = size**2 / 12 * (total + 1 - ties / (total * (total - 1)))
    if variance <= 0:
        return 1.0
    distance = max(size**2 / 2 - least - 0.5, 0.0)
    return erfc(distance / sqrt(2 * variance))
