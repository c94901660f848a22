"""Likelihood of the lost frames of a trial, for a device whose capacity varies in a known way.

A device that forwards up to a capacity C, which varies, loses r - C of an offered rate r while C is below r.
On average it loses s·g((r - c)/s), where c is the centre of C, s its spread and g the average loss for a
spread of 1:

============  =============================  =================
C varies as   g(z)                           name in the draft
============  =============================  =================
logistic      ln(1 + exp(z))                 stretch
normal        z·Φ(z) + φ(z)                  erf
uniform       (z + √3)²/(4√3), up to z = √3  none
============  =============================  =================

They differ in how loss begins: exponentially, faster than exponentially, or quadratically from a rate below
which nothing is lost.

The scatter of the lost frames of one trial around that average depends on how fast C varies. If it is *fast*
compared with a trial, every trial shows the average, and its lost frames are negative binomial, with a
relative deviation that also covers the errors of the shape above. If it is *slow*, every trial has a C of its
own, and either loses nothing or shows that C.

Source: fitting functions, "Probabilistic Loss Ratio Search for Packet Throughput" (IETF,
draft-vpolak-bmwg-plrsearch).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from perftrend.measurement import Trial

Array: TypeAlias = NDArray[np.float64]

OUTLIER_SHARE = 0.01
"""Prior fraction of trials that lose any number of frames, with equal weight per order of magnitude."""

_FAST_SIZES = (0.1, 1.0, 100.0)
# Negative binomial sizes: trials deviate from the average by 316 %, 100 % and 10 %.
MODELS = len(_FAST_SIZES) + 1
"""Number of models of the scatter of the lost frames of a trial."""

_TINY = 1e-200


@dataclass(frozen=True, slots=True, eq=False)
class CapacityShape:
    """The distribution of a capacity of centre 0 and spread 1, tabulated at increasing rates z."""

    z: Array
    loss: Array
    """Logarithm of g: the average excess of a rate z over the capacity; increasing."""
    survival: Array
    """Logarithm of the probability that the capacity is above z."""
    density: Callable[[Array], Array]
    """Logarithm of the probability density."""

    def log_loss(self, z: Array) -> Array:
        """Return the logarithm of g."""
        inside = np.interp(z, self.z, self.loss)
        return np.where(z > self.z[-1], np.log(np.maximum(z, 1.0)), inside)

    def log_survival(self, z: Array) -> Array:
        """Return the logarithm of the probability that the capacity is above z."""
        return np.interp(z, self.z, self.survival)

    def rate_of_loss(self, log_loss: Array) -> Array:
        """Return the rate z at which the logarithm of g has this value."""
        inside = np.interp(log_loss, self.loss, self.z)
        return np.where(log_loss > self.loss[-1], np.exp(log_loss), inside)


def _logistic() -> CapacityShape:
    z = np.linspace(-37.0, 37.0, 7401)
    softplus = np.logaddexp(0.0, z)
    return CapacityShape(
        z, np.log(softplus), -softplus, lambda x: -np.abs(x) - 2.0 * np.log1p(np.exp(-np.abs(x)))
    )


def _normal() -> CapacityShape:
    z = np.linspace(-37.0, 37.0, 7401)
    above = np.array([0.5 * math.erfc(point / math.sqrt(2.0)) for point in z])
    bell = np.exp(-(z**2) / 2.0) / math.sqrt(2.0 * math.pi)
    loss = np.log(bell + z * above[::-1])
    return CapacityShape(z, loss, np.log(above), lambda x: -(x**2) / 2.0 - 0.5 * math.log(2.0 * math.pi))


def _uniform() -> CapacityShape:
    half = math.sqrt(3.0)
    from_edge = np.geomspace(1e-7, 2.0 * half, 2000)
    above = np.maximum(_TINY, 1.0 - from_edge / (2.0 * half))

    def density(x: Array) -> Array:
        return np.where(np.abs(x) <= half, -math.log(2.0 * half), math.log(_TINY))

    return CapacityShape(from_edge - half, np.log(from_edge**2 / (4.0 * half)), np.log(above), density)


SHAPES = (_logistic(), _normal(), _uniform())


@dataclass(frozen=True, slots=True, eq=False)
class Devices:
    """Candidate devices for a trial, as arrays that broadcast against each other."""

    shape: CapacityShape
    load: Array
    """The offered rate relative to the critical load."""
    above_centre: Array
    """Offered rate minus the centre of the capacity, relative to the critical load."""
    spread: Array
    """The spread of the capacity, relative to the critical load."""


def log_likelihoods(trial: Trial, devices: Devices, *, overload: float) -> Array:
    """Return the logarithm of the likelihood of a trial in each model, shape (MODELS, …).

    :param overload: a loss ratio above which only "at least this" counts: the amount of loss in overload
        provides no information about where loss begins.
    """
    lost, sent = lost_frames(trial), trial.sent
    log_ratio = np.log(devices.spread / devices.load) + devices.shape.log_loss(
        devices.above_centre / devices.spread
    )
    expected = sent * np.exp(np.minimum(0.0, log_ratio))
    if lost > overload * sent:
        least = overload * sent
        fast = [_at_least(least, expected, size) for size in _FAST_SIZES]
        slow = _capacity_at_most(overload, devices)
    else:
        fast = [_negative_binomial(lost, expected, size) for size in _FAST_SIZES]
        slow = _own_capacity(lost, sent, devices)
    return np.logaddexp(math.log1p(-OUTLIER_SHARE) + np.stack([*fast, slow]), log_outlying(trial))


def log_outlying(trial: Trial) -> float:
    """Return the logarithm of the probability of an outlier that loses as much as this trial."""
    orders_of_magnitude = math.log(trial.sent + 1.0) + 1.0
    return math.log(OUTLIER_SHARE / orders_of_magnitude) - math.log(lost_frames(trial) + 1.0)


def lost_frames(trial: Trial) -> int:
    """Return the number of frames lost; 0 if more were received than sent."""
    return min(trial.sent, max(0, trial.sent - trial.received))


def _negative_binomial(lost: float, expected: Array, size: float) -> Array:
    ways = math.lgamma(lost + size) - math.lgamma(size) - math.lgamma(lost + 1.0)
    mean = np.maximum(expected, _TINY)
    return ways - size * np.log1p(mean / size) - lost * np.log1p(size / mean)


def _at_least(least: float, expected: Array, size: float) -> Array:
    # The leading behaviour of the tail: certain if more is expected, the likelihood of the count if less.
    certain = _negative_binomial(least, np.array(least), size)
    return _negative_binomial(least, np.minimum(least, expected), size) - certain


def _own_capacity(lost: int, sent: int, devices: Devices) -> Array:
    # Frames are counted whole and lost by chance, which blurs the capacity that a trial shows.
    blurred = np.hypot(devices.spread, devices.load * math.sqrt(lost + 1.0) / sent)
    if lost == 0:
        return devices.shape.log_survival(devices.above_centre / blurred)
    frame = devices.load / sent
    shown = devices.shape.density((devices.above_centre - lost * frame) / blurred)
    return np.minimum(0.0, shown + np.log(frame / blurred))


def _capacity_at_most(overload: float, devices: Devices) -> Array:
    capacity = devices.above_centre - overload * devices.load
    above = np.exp(devices.shape.log_survival(capacity / devices.spread))
    return np.log(np.maximum(_TINY, 1.0 - above))
