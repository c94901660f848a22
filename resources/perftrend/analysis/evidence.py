"""The evidence for a step at the newest runs: a likelihood ratio that keeps a stated rate of errors.

With n runs since the last confirmed change, let D be the average of the last w of them less the
average of those before, in sigmas of the trace, and m = w (n - w) / n. For a step of δ sigmas, at a
place and on a level that are not known, the likelihood ratio against no step is

    Λ(δ) = max over w of  δ m D - δ² m / 2,

which is Page's CUSUM with a reference that learns. Three sizes are looked for. Λ is compared with
the limit that a CUSUM of that δ passes by chance at a stated rate, 1 / rate = 2 (e^b - b - 1) / δ²,
b = limit + 1.166 δ. For sigma, which is not known either, the deviation about the two averages is
taken; √m D is then Student's t with n - 2 degrees of freedom, and is changed to the normal score
that is as improbable. Where each run resembles the one before it, with a correlation r, averages of
runs move by √((1 + r) / (1 - r)) as much, and the scores are divided by that.

Source: Page, Continuous inspection schemes, 1954; Siegmund, Sequential Analysis, 1985, equation
2.57 and chapter X; Wallace, Bounds on normal approximations to Student's and the chi-square
distributions, 1959.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from perftrend.model import Better, Direction, Samples

STEPS = ((0.8, 0.65), (2.25, 0.3), (4.0, 0.05))
"""The sizes that are looked for, in sigmas, and each one's share of the false alarms."""

MINIMUM_HISTORY = 5
"""Runs before a change; fewer know too little of the noise."""

SIDES = {Direction.REGRESSION: 1.0, Direction.PROGRESSION: -1.0}
"""The sign of the scores of each direction."""

_OVERSHOOT = 1.166
_ROUNDING = 1e-12

_DOUBT = 2.0
"""A correlation counts from so many of its standard errors, 1/√n, on."""


@dataclass(frozen=True, slots=True)
class Scores:
    """How far the last w runs lie from those before, for w from 1 on; both of one shape."""

    worse: Samples
    """√m D as a normal score, positive for worse; infinite where neither side has any noise."""
    weight: Samples
    """m = w (n - w) / n."""


def scores(values: Samples, better: Better) -> Scores:
    """Score all splits that leave enough runs before them; none where there are too few.

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
    freedom = size - 2
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(rest > _ROUNDING * squares, weight * distance**2 / rest, np.inf)
        ratio[distance == 0] = 0.0
        # Wallace 1959: the normal score that is as improbable as Student's t = √(freedom ratio).
        score = (8 * freedom + 1) / (8 * freedom + 3) * np.sqrt(freedom * np.log1p(ratio))
    sign = np.sign(distance) * (-1.0 if better is Better.HIGHER else 1.0)
    return Scores(sign * score, weight)


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
    # Only an alarm needs the second look, and only then the step can be taken out of the correlation.
    inflation = _inflation(values, found[1])
    if inflation == 1.0:
        return found
    return _strongest(Scores(scored.worse / inflation, scored.weight), rates)


@cache
def limit(rate: float, step: float) -> float:
    """Return what the likelihood ratio of a step passes by chance once in 1 / rate runs, in nats.

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


def _inflation(values: Samples, runs: int) -> float:
    """Return how much more averages move than independent runs would let them, at least 1."""
    rest = values.copy()
    rest[:-runs] -= rest[:-runs].mean()
    rest[-runs:] -= rest[-runs:].mean()
    squares = float(rest @ rest)
    correlation = float(rest[1:] @ rest[:-1]) / squares if squares else 0.0
    if correlation < _DOUBT / math.sqrt(values.size):
        return 1.0
    return math.sqrt((1 + correlation) / (1 - correlation))
