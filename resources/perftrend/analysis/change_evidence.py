"""The evidence for a step at the newest runs, and whether it is a slow drift: likelihood ratios.

With n runs since the last confirmed change, let D be the average of the last w of them less the
average of those before, in sigmas of the trace, and m = w (n - w) / n. For a step of δ sigmas, at
an unknown place and on an unknown level, the likelihood ratio against no step is

    Λ(δ) = max over w of  δ m D - δ² m / 2,

which is Page's CUSUM with an estimated reference. Three sizes are tested. Λ is compared with
the limit that a CUSUM of that δ passes by chance at a stated rate, 1 / rate = 2 (e^b - b - 1) / δ²,
b = limit + 1.166 δ. Sigma is not known either; it is estimated by the deviation about the two
averages. √m D is then Student's t with n - 2 degrees of freedom, and is converted to the normal
score that is as improbable.

If runs resemble those before them (:mod:`.noise`), 1 / m is the variance of the two averages, δ is
counted in sigmas of averages of many runs, and the rate that must not exceed the stated one is the rate
at which noise passes Λ, averaged over all memories that the runs allow. 1.166 δ is the amount by which
independent runs overshoot a limit; averages of runs that resemble each other move more smoothly, and b is
limit + 1.166 δ / L^q instead, with δ in sigmas of single runs and the factor L by which the memory increases
the variance of averages of many runs.

For the shape of a change, two curves with equally many parameters are fitted by least squares, each with its
break at the best place: a step, level before and level after; and a drift, a level and from the break on a
straight slope. If the noise is normal, n/2 · ln(SSE of the step / SSE of the drift) is the logarithm of the
likelihood ratio, and decides.

Source: Page, Continuous inspection schemes, 1954; Siegmund, Sequential Analysis, 1985, equation 2.57 and
chapter X; Wallace, Bounds on normal approximations to Student's and the chi-square distributions, 1959;
Hinkley, Inference about the intersection in two-phase regression, 1969, for the drift, and Hinkley, Inference
about the change-point in a sequence of random variables, 1970, for the step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache

import numpy as np

from perftrend.analysis.noise import (
    LONG_RUN,
    degrees_of_freedom,
    memory_weights,
    normal_score,
    variance_of_average,
)
from perftrend.model import Better, Direction, Samples

STEPS = ((0.8, 0.65), (2.25, 0.3), (4.0, 0.05))
"""The sizes that are tested, in sigmas, and each one's share of the false alarms."""

MINIMUM_HISTORY = 5
"""Runs before a change; fewer do not determine the noise well enough."""

SIDES = {Direction.REGRESSION: 1.0, Direction.PROGRESSION: -1.0}
"""The sign of the scores of each direction."""

_OVERSHOOT = 1.166
_SMOOTHNESS = {0.8: 0.04, 2.25: 0.36, 4.0: 0.36}
"""The exponent q of each step, from simulated CUSUMs of an autoregression with known r."""
_ROUNDING = 1e-12
_LEAST_BEYOND, _MOST_BEYOND = 1e-3, 300.0
"""Nats; beyond these limits a rate is practically 1, or 0."""

CONVINCING = math.log(10)
"""Nats: a drift must be ten times more probable. A step is the usual case."""

_LEAST_RUNS = 3
"""A slope of fewer runs looks like a step as well."""


@dataclass(frozen=True, slots=True)
class Scores:
    """The distance of the last w runs from those before, for w from 1 on; all of one shape."""

    worse: Samples
    """√m D as a normal score, positive for worse; infinite if neither side has any noise."""
    weight: Samples
    """m = w (n - w) / n."""
    distance: Samples
    """D, in the unit of the values; positive for higher."""
    left: Samples
    """Sum of squares about the two averages."""


def scores(values: Samples, better: Better) -> Scores:
    """Score all splits that leave enough runs before them; return empty arrays if there are too few runs.

    :param values: run averages, finite, shape (n,), any unit.
    :param better: which direction of the trace is good.
    """
    size = values.size
    # Relative to the first run a series of equal values has exactly no deviation.
    offsets = values - values[0]
    offsets -= offsets.mean()
    new = np.arange(1.0, size - MINIMUM_HISTORY + 1)
    tail = np.cumsum(offsets[::-1])[: new.size]
    weight = new * (size - new) / size
    distance = tail / weight
    squares = float(offsets @ offsets)
    rest = squares - weight * distance**2
    rest[rest <= _ROUNDING * squares] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(distance == 0, 0.0, weight * distance**2 / rest)
    sign = np.sign(distance) * (-1.0 if better is Better.HIGHER else 1.0)
    return Scores(sign * normal_score(ratio, size - 2), weight, distance, rest)


def newest_change(
    values: Samples, better: Better, rates: Mapping[Direction, float]
) -> tuple[Direction, int] | None:
    """Return the direction and the number of runs of the change with the most evidence, if enough.

    :param values: run averages since the last confirmed change, finite, shape (n,), any unit.
    :param better: which direction of the trace is good.
    :param rates: false alarms a run that each direction may raise. Takes O(n).
    """
    scored = scores(values, better)
    found = _strongest(scored, rates)
    if found is None:
        return None
    # Only an alarm needs the second test, and the memories are weighed with the step that it found.
    return _with_memory(scored, values.size, memory_weights(values, found[1]), rates)


@cache
def limit(rate: float, step: float) -> float:
    """Return the limit that the likelihood ratio of a step passes by chance once in 1 / rate runs, in nats.

    :param rate: false alarms a run, above 0.
    :param step: δ, in sigmas.
    """
    low, high = 0.0, 1.0
    while 2 * (math.expm1(high) - high) / step**2 < 1 / rate:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        if 2 * (math.expm1(middle) - middle) / step**2 < 1 / rate:
            low = middle
        else:
            high = middle
    return high - _OVERSHOOT * step


def chance_rate(evidence: Samples, step: float) -> Samples:
    """Return the average rate at which runs pass this evidence by chance: the inverse of :func:`limit`.

    :param evidence: nats, by the memories of :mod:`.noise`, shape (points, w).
    :param step: δ, in sigmas of single runs, one of ``STEPS``.
    :returns: false alarms a run, at most 1, shape (points, w).
    """
    relative = step / np.sqrt(LONG_RUN)
    overshoot = _OVERSHOOT * step / LONG_RUN ** _SMOOTHNESS[step]
    beyond = np.clip(evidence + overshoot, _LEAST_BEYOND, _MOST_BEYOND)
    rate: Samples = np.minimum(relative**2 / (2 * (np.expm1(beyond) - beyond)), 1.0)
    return rate


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


def _strongest(scored: Scores, rates: Mapping[Direction, float]) -> tuple[Direction, int] | None:
    if not scored.weight.size:
        return None
    best: tuple[float, Direction, int] | None = None
    worse = np.sqrt(scored.weight) * scored.worse
    for direction, side in SIDES.items():
        for step, share in STEPS:
            evidence = side * step * worse - step**2 / 2 * scored.weight
            runs = int(np.argmax(evidence))
            excess = float(evidence[runs]) - limit(rates[direction] * share, step)
            if excess >= 0 and (best is None or excess > best[0]):
                best = excess, direction, runs + 1
    return best and best[1:]


def _with_memory(
    scored: Scores, size: int, weights: Samples, rates: Mapping[Direction, float]
) -> tuple[Direction, int] | None:
    """Return the same as :func:`newest_change`, from the weights of all memories."""
    worse, weight = _scores_with_memory(scored, size)
    worse = np.sqrt(weight) * worse
    best: tuple[float, Direction, int] | None = None
    for direction, side in SIDES.items():
        for step, share in STEPS:
            evidence = side * step * worse - step**2 / 2 * weight
            passed = weights @ chance_rate(evidence, step)
            runs = int(np.argmin(passed))
            part = float(passed[runs]) / (rates[direction] * share)
            if part <= 1 and (best is None or part < best[0]):
                best = part, direction, runs + 1
    return best and best[1:]


def _scores_with_memory(scored: Scores, size: int) -> tuple[Samples, Samples]:
    """Return score and weight of all splits for each memory, shape (points, w) each."""
    weight, squares = _tables(size)
    freedom = degrees_of_freedom(size)
    # The squares of both sides over the variance that remains after subtraction of their averages.
    variance = scored.left / squares
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = weight * scored.distance**2 / (freedom * variance)
    ratio[:, scored.distance == 0] = 0.0
    return np.sign(scored.worse) * normal_score(ratio, freedom), weight


@lru_cache(maxsize=512)
def _tables(size: int) -> tuple[Samples, Samples]:
    new = np.arange(1.0, size - MINIMUM_HISTORY + 1)
    after, before = variance_of_average(new), variance_of_average(size - new)
    return 1 / (after + before), new * (1 - after) + (size - new) * (1 - before)
