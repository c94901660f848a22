"""Noise with a memory: the variance of averages of neighbouring runs that resemble those before them.

Noise is modelled as the sum of two parts, one without memory and one that fades with every run: the
correlation of two runs at a distance of k runs is g r^k. With g = 1 it is an autoregression; with a smaller
g, a machine that is in one of two modes for days, and ordinary noise. The strength of the memory is unknown:
a grid of g and r is weighted by the likelihood of the periodogram I of the residuals of a step,

    ln L = - Σ ln f(ω) - m ln (Σ I(ω) / f(ω)),    f(ω) = 1 - g + g (1 - r²) / (1 - 2 r cos ω + r²),

over the m Fourier frequencies ω. Averages of w runs have the variance

    v(w) = (1 + 2 g (r / (1-r) - r (1 - r^w) / (w (1-r)²))) / w

relative to that of single runs. The probability of an error is the weighted sum over all points of the grid:
a short history cannot exclude a memory.

Source: Whittle, Estimation and information in stationary time series, 1953, for the likelihood; Bartlett, On
the theoretical specification and sampling properties of autocorrelated time-series, 1946, for the degrees of
freedom; Wallace, Bounds on normal approximations to Student's and the chi-square distributions, 1959.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from perftrend.model import Samples

_POINTS = ((0.0, 0.0), *((g, r) for r in (0.2, 0.4, 0.6, 0.8) for g in (0.5, 1.0)))
_G = np.array([[g] for g, _ in _POINTS])
_R = np.array([[r] for _, r in _POINTS])
_NO_MEMORY = 0.6
"""The prior probability that noise has no memory."""
_SLOW_R = 0.8
_SLOW_WEIGHT = 2.0
"""The prior of a memory that lasts for a week, that of a machine's modes, relative to a shorter one."""
_WITH_MEMORY = np.array([0.0, *(_SLOW_WEIGHT if r == _SLOW_R else 1.0 for _, r in _POINTS[1:])])
_PRIOR = (1 - _NO_MEMORY) * _WITH_MEMORY / float(_WITH_MEMORY.sum())
_PRIOR[0] = _NO_MEMORY
_CACHED = 512
"""The number of trace lengths for which tables are cached."""

LONG_RUN = 1 + 2 * _G * _R / (1 - _R)
"""The factor by which a memory increases the variance of the average of many runs, shape (points, 1)."""

_SHARED = 1 + 2 * _G**2 * _R**2 / (1 - _R**2)
"""The number of runs that give one degree of freedom of the deviation, shape (points, 1)."""


def variance_of_average(runs: Samples) -> Samples:
    """Return the variance of the average of neighbouring runs, shape (points, w).

    :param runs: numbers of runs, from 1 on, shape (w,).
    """
    together = _R / (1 - _R) - _R * (1 - _R**runs) / (runs * (1 - _R) ** 2)
    variance: Samples = (1 + 2 * _G * together) / runs
    return variance


def degrees_of_freedom(size: int) -> Samples:
    """Return the degrees of freedom of the deviation about two averages, shape (points, 1), at least 1.

    :param size: the number of runs.
    """
    freedom: Samples = np.maximum(size / _SHARED - 2, 1.0)
    return freedom


def memory_weights(rest: Samples) -> Samples:
    """Return the probability of each memory, shape (points,); they sum to 1.

    :param rest: the residuals of a step, shape (n,), in the order of time.
    """
    frequencies = (rest.size - 1) // 2
    power = np.abs(np.fft.rfft(rest)[1 : frequencies + 1]) ** 2
    if not frequencies or not power.any():
        return _PRIOR
    logs, spectrum = _spectra(rest.size)
    fit = -logs - frequencies * np.log((power / spectrum).mean(axis=1))
    weights: Samples = _PRIOR * np.exp(fit - fit.max())
    return weights / float(weights.sum())


def step_chance(values: Samples, runs: int) -> float:
    """Return the probability that noise alone causes a step of at least this size between two averages.

    :param values: run averages, finite, shape (n,), any unit, without another change of the trend.
    :param runs: how many of the newest runs are after the step, from 1 to n - 1.
    :returns: the probability of both directions together, for one place, averaged over all memories.
    """
    before, after = values[:-runs], values[-runs:]
    step = float(after.mean() - before.mean())
    rest = np.concatenate([before - before.mean(), after - after.mean()])
    squares = float(rest @ rest)
    if not squares:
        return 0.0 if step else 1.0
    sizes = np.array([runs, values.size - runs], dtype=np.float64)
    variances = variance_of_average(sizes)
    freedom = degrees_of_freedom(values.size)[:, 0]
    deviations = squares / (sizes * (1 - variances)).sum(axis=1)
    ratio = step**2 / (variances.sum(axis=1) * deviations * freedom)
    scores = normal_score(ratio, freedom)
    chances = np.array([math.erfc(score) for score in (scores / math.sqrt(2)).tolist()])
    return float(memory_weights(rest) @ chances)


def normal_score(ratio: Samples, freedom: float | Samples) -> Samples:
    """Return the normal score that is as improbable as Student's t = √(freedom ratio), by Wallace 1959."""
    score: Samples = (8 * freedom + 1) / (8 * freedom + 3) * np.sqrt(freedom * np.log1p(ratio))
    return score


@lru_cache(maxsize=_CACHED)
def _spectra(size: int) -> tuple[Samples, Samples]:
    frequencies = (size - 1) // 2
    cosines = np.cos(2 * np.pi / size * np.arange(1, frequencies + 1))
    spectrum = 1 - _G + _G * (1 - _R**2) / (1 - 2 * _R * cosines + _R**2)
    return np.log(spectrum).sum(axis=1), spectrum
