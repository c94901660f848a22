"""Step or slow drift: the shape of the runs since the last confirmed change.

Two curves with equally many parameters are fitted by least squares, each with its break at the best
place: a step, level before and level after; and a drift, a level and from the break on a straight
slope. If the noise is normal, n/2 · ln(SSE of the step / SSE of the drift) is the logarithm of
the likelihood ratio, and decides.

Source: Hinkley, Inference about the intersection in two-phase regression, 1969, for the drift, and
Hinkley, Inference about the change-point in a sequence of random variables, 1970, for the step.
"""

from __future__ import annotations

import math
from enum import StrEnum

import numpy as np

from perftrend.model import Samples

CONVINCING = math.log(10)
"""Nats: a drift must be ten times more probable. A step is the usual case."""

_LEAST_RUNS = 3
"""A slope of fewer runs looks like a step as well."""

_ROUNDING = 1e-12


class ChangeShape(StrEnum):
    """How a trace left its level."""

    STEP = "step"
    DRIFT = "drift"
    """A little with every run, since some run on and up to now."""


def shape_of(values: Samples) -> ChangeShape:
    """Return whether runs left their level by a step or by a drift.

    :param values: run averages in the order of time, finite, shape (n,), any unit.
    :returns: STEP if the drift is not convincing, or if there are too few runs.
    """
    return ChangeShape.DRIFT if drift_evidence(values) > CONVINCING else ChangeShape.STEP


def drift_evidence(values: Samples) -> float:
    """Return the logarithm of the likelihood ratio of the best drift to the best step, in nats.

    :param values: run averages in the order of time, finite, shape (n,), any unit.
    :returns: positive if the drift fits better; 0 if there are fewer than six runs or if
        both fit without error. O(n).
    """
    size = values.size
    if size < 2 * _LEAST_RUNS:
        return 0.0
    offsets = values - values[0]
    offsets -= offsets.mean()
    squares = float(offsets @ offsets)
    new = np.arange(1.0, size)
    tails = np.cumsum(offsets[::-1])[:-1]
    step = squares - float((tails**2 * size / (new * (size - new))).max())
    # The slope from a break w runs back is 1, 2, … w; its covariance with the runs is a sum of tails.
    covariance = np.cumsum(tails)
    total = new * (new + 1) / 2
    spread = new * (new + 1) * (2 * new + 1) / 6 - total**2 / size
    explained = covariance**2 / spread
    drift = squares - float(explained[_LEAST_RUNS - 1 :].max())
    floor = _ROUNDING * squares
    if step <= floor or drift <= floor:
        return 0.0 if step <= floor and drift <= floor else math.copysign(math.inf, step - drift)
    return size / 2 * math.log(step / drift)
