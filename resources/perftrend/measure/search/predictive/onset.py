"""Prediction of the onset of loss, from all trials near it and weighted by what each of them shows.

Near its onset, loss grows with some power of the distance from it, so that a root of the loss is a straight
line over the rate. The line is fitted for powers from 1 to 4. The predictions are averaged with the
likelihoods of the fits, so that the uncertainty of the average includes that of the power.

The loss of a trial is known to within one frame of the whole trial, also if the trial ended early: then the
time of the last lost frame shows the loss that precisely. If frames are lost at random, the points are rarely
on a line, and nothing is predicted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from perftrend.measure.search.trials import lost
from perftrend.measurement import Trial

FEWEST_POINTS = 5
"""Fewer points may be on a line by chance."""

_MOST_POINTS = 10

_POWERS = tuple(1.0 + number / 8.0 for number in range(25))

_OVERLOADED = 0.01
"""A larger loss ratio shows a queue that overflows rather than the onset."""

_MIDDLE = 0.5
_COUNTING_VARIANCE = 1.0 / 12.0
"""A trial that lost n frames lost a real number between n and n + 1: its mean above n, and its variance."""

_TOLERATED_VARIANCE = 0.02**2
"""Relative variance of the loss around a power of the distance."""

_FARTHEST = 0.5
"""Greatest distance of the onset from the lowest point, relative to its rate."""


class Onset(NamedTuple):
    """The predicted rate at which a trial of the final duration loses one frame."""

    log_rate: float
    deviation: float
    """Standard deviation of ``log_rate``."""


def predict_onset(trials: Iterable[Trial], final_duration_s: float) -> Onset | None:
    """Predict the onset of loss; None if it is not known.

    The points are the trials at the lowest rates with loss, as many as are on a line for any power. The onset
    is not known if these are less than five, or if it is farther from the lowest point than the fifth is.

    :param trials: of any duration, also ones that ended early or lost nothing.
    """
    lossy = [trial for trial in trials if 0 < lost(trial) <= _OVERLOADED * trial.sent]
    lowest = sorted(lossy, key=lambda trial: trial.rate_pps)[:_MOST_POINTS]
    if len(lowest) < FEWEST_POINTS:
        return None
    unit_pps = lowest[0].rate_pps
    points = [_Point.of(trial, unit_pps) for trial in lowest]
    one_frame = 1.0 / (unit_pps * final_duration_s)
    by_power = [_fit(points, power, one_frame) for power in _POWERS]
    for count in range(len(points), FEWEST_POINTS - 1, -1):
        crossings = [of_power[count] for of_power in by_power]
        if min(crossing.chi_squared for crossing in crossings) <= count:
            x, variance = _average(crossings)
            reach = min(points[FEWEST_POINTS - 1].x, _FARTHEST)
            return Onset(math.log(unit_pps) + math.log1p(x), math.sqrt(variance)) if x >= -reach else None
    return None


class _Point(NamedTuple):
    """The loss ratio at a rate."""

    x: float
    """The rate, relative to that of the lowest point, minus 1."""
    loss_ratio: float
    relative_variance: float

    @classmethod
    def of(cls, trial: Trial, unit_pps: float) -> _Point:
        whole = trial.rate_pps * trial.duration_s
        frames = lost(trial) / trial.sent * whole + _MIDDLE
        variance = _COUNTING_VARIANCE / frames**2 + _TOLERATED_VARIANCE
        return cls(trial.rate_pps / unit_pps - 1.0, frames / whole, variance)


class _Crossing(NamedTuple):
    """Where a fitted line reaches a height."""

    chi_squared: float
    x: float
    variance: float


class _Sums(NamedTuple):
    """Sums over points: of their weights, and of the products of these with the coordinates."""

    weight: float = 0.0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0
    yy: float = 0.0

    def add(self, point: tuple[float, float, float]) -> _Sums:
        """Return the sums with another point: its x, its y, and its weight."""
        x, y, weight = point
        terms = (weight, weight * x, weight * y, weight * x * x, weight * x * y, weight * y * y)
        return _Sums(*map(sum, zip(self, terms, strict=True)))

    def crossing(self, height: float) -> _Crossing:
        """Return where the line through the points, by least squares, reaches a height."""
        x, y = self.x / self.weight, self.y / self.weight
        xx, xy, yy = self.xx - self.x * x, self.xy - self.x * y, self.yy - self.y * y
        if xx <= 0.0 or xy <= 0.0:
            return _Crossing(math.inf, 0.0, 0.0)
        slope = xy / xx
        distance = (height - y) / slope
        variance = (1.0 / self.weight + distance**2 / xx) / slope**2
        return _Crossing(yy - slope * xy, x + distance, variance)


def _fit(points: Sequence[_Point], power: float, loss_ratio: float) -> list[_Crossing]:
    """Return where the loss ratio is reached, by the lines through the first n points, for each n."""
    roots = [point.loss_ratio ** (1.0 / power) for point in points]
    weighted = (
        (point.x, root, (power / root) ** 2 / point.relative_variance)
        for point, root in zip(points, roots, strict=True)
    )
    sums = accumulate(weighted, _Sums.add, initial=_Sums())
    height = loss_ratio ** (1.0 / power)
    return [
        of.crossing(height) if number >= FEWEST_POINTS else _Crossing(math.inf, 0.0, 0.0)
        for number, of in enumerate(sums)
    ]


def _average(crossings: Sequence[_Crossing]) -> tuple[float, float]:
    """Return the mean and the variance of the crossings, weighted by the likelihood of their fits."""
    least = min(crossing.chi_squared for crossing in crossings)
    likelihoods = [math.exp((least - crossing.chi_squared) / 2.0) for crossing in crossings]
    weighted = list(zip(likelihoods, crossings, strict=True))
    mean = sum(weight * crossing.x for weight, crossing in weighted) / sum(likelihoods)
    squares = sum(weight * (crossing.variance + (crossing.x - mean) ** 2) for weight, crossing in weighted)
    return mean, squares / sum(likelihoods)
