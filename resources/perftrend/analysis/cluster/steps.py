"""The step in the centroid of a cluster, by the statistic of Skia Perf and by a corrected one.

The step is fitted at the position with the least squares error, among those with at least five commits on
each side. With L and R the averages before and from the position on, n₁ and n₂ their numbers of commits,
n = n₁ + n₂ and SSE the squares about both,

    lse = √SSE / n,   Regression = (R - L) / lse,
    t = (R - L) / (s √(1/n₁ + 1/n₂)) = Regression · √((n - 2) n₁ n₂ / n³),   s² = SSE / (n - 2).

Regression grows with √n and depends on the position of the step: a cutoff is valid for one length of window.
t, the corrected statistic, is Student's; its cutoff is valid for all.

Source: "Skia Perf: Design", section Clustering, with the opposite sign: there, a lower value is better.
"""

from __future__ import annotations

from math import inf, sqrt

import numpy as np

from perftrend.analysis.stepfit import StepFit
from perftrend.model import Better, Samples

MINIMUM_SIDE = 5
"""Minimum number of commits on each side of a step."""

_ROUNDING = 1e-12
"""A deviation that is a smaller fraction of the step counts as 0."""


def centroid_step(centroid: Samples, *, better: Better, side: int = MINIMUM_SIDE) -> StepFit | None:
    """Fit a step to a centroid.

    :param centroid: shape (w,), finite.
    :param better: which direction of the traces is good.
    :param side: commits on each side of the step, at least 1.
    :returns: the step; None if the window is shorter than two sides.
    """
    width = centroid.size
    if width < 2 * side:
        return None
    offsets = centroid - centroid[0]
    splits = np.arange(side, width - side + 1)
    before = np.cumsum(offsets)[splits - 1]
    left, right = before / splits, (offsets.sum() - before) / (width - splits)
    # The part of the squares about the common average that a split explains: the rest is the error.
    best = int(np.argmax((right - left) ** 2 * splits * (width - splits)))
    split = int(splits[best])
    step = float(right[best] - left[best])
    squares = [float(((part - part.mean()) ** 2).sum()) for part in (offsets[:split], offsets[split:])]
    lse = sqrt(sum(squares)) / width
    turned = step if better is Better.HIGHER else -step
    return StepFit(split, turned, lse, _ratio(turned, lse))


def t_statistic(step: StepFit, width: int) -> float:
    """Return Student's t of a step in a window of ``width`` commits, with the sign of its Regression."""
    before, after = step.position, width - step.position
    return step.regression * sqrt((width - 2) * before * after / width**3)


def _ratio(step: float, lse: float) -> float:
    if not step:
        return 0.0
    return step / lse if lse > _ROUNDING * abs(step) else inf * step
