"""Prediction of the rate at which a given loss ratio occurs, from the losses of trials.

If a queue overflows, a device forwards as much as it can and loses the rest. If loss begins gradually, it
grows with some power of the distance from its onset, or by a constant factor from rate to rate. None of these
models is assumed: the one is used that would have predicted the known points best.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from perftrend.measure.search.predictive.evidence import FEWEST_LOST
from perftrend.measure.search.trials import lost
from perftrend.measurement import Trial

_ALL = 1.0 - 1e-9
"""Limit of loss ratios in predictions: a trial that receives nothing does not predict a rate."""


@dataclass(frozen=True, slots=True)
class LossPoint:
    """The loss ratio at a rate."""

    log_rate: float
    loss_ratio: float
    trials: int = 1

    def average_with(self, other: LossPoint) -> LossPoint:
        """Return the average of two points."""
        trials = self.trials + other.trials
        share = other.trials / trials
        return LossPoint(
            self.log_rate + share * (other.log_rate - self.log_rate),
            self.loss_ratio + share * (other.loss_ratio - self.loss_ratio),
            trials,
        )

    def overload_rate(self, loss_ratio: float) -> float:
        """Return the log of the rate with this loss ratio, if the receive rate is the same as here."""
        here, there = min(self.loss_ratio, _ALL), min(loss_ratio, _ALL)
        return self.log_rate + math.log1p(-here) - math.log1p(-there)

    def overload_loss(self, log_rate: float) -> float:
        """Return the loss ratio at a rate, if the receive rate is the same as here."""
        here = min(self.loss_ratio, _ALL)
        return max(0.0, -math.expm1(self.log_rate + math.log1p(-here) - log_rate))


def loss_curve(trials: Iterable[Trial], resolution: float) -> list[LossPoint]:
    """Return the loss curve of trials, which increases with the rate.

    Trials less than ``resolution`` apart (in ln of the rate) are averaged, and so are trials that
    contradict each other, with more loss at a lower rate.
    """
    points: list[LossPoint] = []
    informative = (trial for trial in trials if lost(trial) >= FEWEST_LOST)
    for trial in sorted(informative, key=lambda trial: trial.rate_pps):
        points.append(LossPoint(math.log(trial.rate_pps), lost(trial) / trial.sent))
        while len(points) > 1 and (
            points[-1].loss_ratio <= points[-2].loss_ratio
            or points[-1].log_rate - points[-2].log_rate < resolution
        ):
            last = points.pop()
            points.append(points.pop().average_with(last))
    return points


def foretell(points: Sequence[LossPoint], loss_ratio: float) -> float | None:
    """Predict the log of the rate with this loss ratio; None if nothing is known.

    :param points: as from :func:`loss_curve`.
    :param loss_ratio: above 0.
    """
    nearest = _nearest(points, loss_ratio)
    if not nearest:
        return None
    shape = _shape(nearest)
    if shape is None:
        return _lowest_overloaded(nearest, loss_ratio).overload_rate(loss_ratio)
    return LossLine.through(nearest, shape).log_rate_of(loss_ratio)


def foretell_softly(points: Sequence[LossPoint], loss_ratio: float) -> float | None:
    """Predict the same, assuming that loss grows with the square of the distance from its onset."""
    nearest = _nearest(points, loss_ratio)
    return LossLine.through(nearest, _SQUARE).log_rate_of(loss_ratio) if len(nearest) > 1 else None


class _Shape(NamedTuple):
    """A transformation that makes the loss linear in the log of the rate, and its inverse."""

    height: Callable[[float], float]
    loss: Callable[[float], float]


_EVEN = _Shape(lambda loss: loss, lambda height: max(0.0, height))
_SQUARE = _Shape(math.sqrt, lambda height: max(0.0, height) ** 2)
_CUBE = _Shape(math.cbrt, lambda height: max(0.0, height) ** 3)
_FACTOR = _Shape(math.log, lambda height: math.exp(min(0.0, height)))
_SHAPES = (_EVEN, _SQUARE, _CUBE, _FACTOR)


class LossLine(NamedTuple):
    """A line through two points of the loss that a shape has transformed."""

    shape: _Shape
    log_rate: float
    height: float
    slope: float

    @classmethod
    def through(cls, points: Sequence[LossPoint], shape: _Shape) -> Self:
        """Return the line through the first two of these points."""
        first, second = points[:2]
        height, other = shape.height(first.loss_ratio), shape.height(second.loss_ratio)
        return cls(shape, first.log_rate, height, (other - height) / (second.log_rate - first.log_rate))

    def log_rate_of(self, loss_ratio: float) -> float:
        """Return the log of the rate with this loss."""
        return self.log_rate + (self.shape.height(loss_ratio) - self.height) / self.slope

    def loss_at(self, log_rate: float) -> float:
        """Return the loss at this log of the rate."""
        return self.shape.loss(self.height + self.slope * (log_rate - self.log_rate))


def _nearest(points: Sequence[LossPoint], loss_ratio: float) -> list[LossPoint]:
    """Return at most three points, the one with the nearest loss ratio first."""
    return sorted(points, key=lambda point: _difference(point.loss_ratio, loss_ratio))[:3]


def _shape(nearest: Sequence[LossPoint]) -> _Shape | None:
    """Return how loss grows; None if a queue overflows or only one point is known."""
    first, *others = nearest
    if not others:
        return None
    if len(others) == 1:
        # One point alone predicts the other only if a queue overflows.
        error = abs(first.overload_rate(others[0].loss_ratio) - others[0].log_rate)
        return None if error < abs(first.log_rate - others[0].log_rate) / 4.0 else _SQUARE
    errors = [
        (_difference(LossLine.through(others, shape).loss_at(first.log_rate), first.loss_ratio), shape)
        for shape in _SHAPES
    ]
    least, shape = min(errors, key=lambda error: error[0])
    overflown = _lowest_overloaded(others, first.loss_ratio).overload_loss(first.log_rate)
    return None if _difference(overflown, first.loss_ratio) < least else shape


def _lowest_overloaded(points: Sequence[LossPoint], loss_ratio: float) -> LossPoint:
    # A point above the knee shows where a queue overflows; one below it does not.
    overloaded = [point for point in points if point.loss_ratio > loss_ratio]
    return min(overloaded, key=lambda point: point.log_rate, default=points[0])


def _difference(first: float, second: float) -> float:
    return abs(math.sqrt(first) - math.sqrt(second))
