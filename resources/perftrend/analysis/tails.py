"""The improbability of each run under the tails of its trace, which limit the weight of far-off runs.

A run five deviations off is a change in a trace that is normal, and an ordinary night in one whose
tails are heavy. The runs of the trace decide which it is: five distributions about the median are weighted by
their likelihoods: the normal one, Student's t of 4 and of 2 degrees of freedom, and two in which a part of
the runs has a wide distribution. With them, the probability of a run as far off as each one is

    p = sum over distributions of  weight · P(a run is at least this far off, on this side),

and the run counts as the normal score of p. The tails of a young trace are not known: there a single far run
counts as three to four deviations, however far it is.

Source: Lange, Little and Taylor, Robust statistical modeling using the t distribution, 1989; Box and Tiao, A
Bayesian approach to some outlier problems, 1968.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from perftrend.model import Samples

_WIDE = 10.0
"""The distance in deviations that contains half of the runs of the wide distribution."""

_SCALES = np.exp(np.linspace(-0.4, 0.4, 5))
"""The scales that each distribution may have, around the scale that the quartiles give."""

_LEAST = 1e-290
_NORMAL = NormalDist()


def _normal_tail(distance: Samples) -> Samples:
    return np.array([math.erfc(each) for each in (distance / math.sqrt(2)).tolist()]) / 2


def _wide_tail(distance: Samples) -> Samples:
    tail: Samples = np.arctan2(_WIDE, distance) / math.pi
    return tail


def _student_tail(freedom: int, distance: Samples) -> Samples:
    """Return P(t > distance) for 2 or 4 degrees of freedom, without loss of digits far from zero."""
    root = np.sqrt(freedom + distance**2)
    if freedom == 2:  # noqa: PLR2004 - the two closed forms
        two: Samples = 1 / (root * (root + distance))
        return two
    sine = distance / root
    four: Samples = (freedom / root**2) ** 2 / 4 * (2 + sine) / (1 + sine) ** 2
    return four


def _student_density(freedom: int, distance: Samples) -> Samples:
    constant = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(freedom * math.pi) / 2
    density: Samples = constant - (freedom + 1) / 2 * np.log1p(distance**2 / freedom)
    return density


def _mixture_density(share: float, distance: Samples) -> Samples:
    core = np.exp(-(distance**2) / 2) / math.sqrt(2 * math.pi)
    density: Samples = np.log((1 - share) * core + share * _WIDE / math.pi / (_WIDE**2 + distance**2))
    return density


@dataclass(frozen=True, slots=True)
class _Distribution:
    prior: float
    quartile: float
    """Of a distribution of scale 1."""
    density: Callable[[Samples], Samples]
    """Its logarithm, at distances in scales."""
    tail: Callable[[Samples], Samples]
    """The probability of more than each distance on one side."""


def _student(freedom: int, prior: float, quartile: float) -> _Distribution:
    return _Distribution(
        prior, quartile, lambda d: _student_density(freedom, d), lambda d: _student_tail(freedom, d)
    )


def _mixture(share: float, prior: float, quartile: float) -> _Distribution:
    return _Distribution(
        prior,
        quartile,
        lambda d: _mixture_density(share, d),
        lambda d: (1 - share) * _normal_tail(d) + share * _wide_tail(d),
    )


_DISTRIBUTIONS = (
    _Distribution(0.65, 0.6745, lambda d: -(d**2) / 2 - math.log(2 * math.pi) / 2, _normal_tail),
    _student(4, 0.14, 0.7407),
    _student(2, 0.06, 0.8165),
    _mixture(0.02, 0.10, 0.683),
    _mixture(0.10, 0.05, 0.750),
)


def normal_scores(values: Samples, known: int) -> Samples:
    """Return each run as the normal score that is as improbable in its trace, shape (n,).

    :param values: run averages, finite, shape (n,), any unit, without a change of the trend.
    :param known: how many of the first runs determine the tails, at least 1. The newest ones are
        evaluated, and do not influence their own evaluation.
    :returns: 0 at the median; the values themselves if all known ones are equal.
    """
    offsets = values - np.median(values)
    spread = float(np.median(np.abs(offsets))) or float(np.abs(offsets[:known]).mean())
    if not spread:
        return values
    distances = np.abs(offsets)
    evidence, scales = [], []
    for each in _DISTRIBUTIONS:
        tried = spread / each.quartile * _SCALES
        fits = each.density(distances[:known, np.newaxis] / tried).sum(axis=0) - known * np.log(tried)
        evidence.append(math.log(each.prior) + float(np.logaddexp.reduce(fits)))
        scales.append(float(tried[np.argmax(fits)]))
    weights = np.exp(np.array(evidence) - max(evidence))
    weights /= weights.sum()
    chances = np.zeros(values.size)
    for each, weight, scale in zip(_DISTRIBUTIONS, weights.tolist(), scales, strict=True):
        chances += weight * each.tail(distances / scale)
    scores = np.array([-_NORMAL.inv_cdf(min(max(each, _LEAST), 0.5)) for each in chances.tolist()])
    signed: Samples = np.sign(offsets) * scores
    return signed
