"""The noise of a trace without changes: its variances, its memory and its tails.

The trials of one run share the effects of the machine's restart: the runs are further apart than their
trials suggest. :func:`noise` estimates both variances from the history, without the changes of the trend, by
the analysis of variance of a random effect,

    within² = Σ (x - run average)² / (N - R),
    between² = (Σ n (run average - group average)² / (R - G) - within²) / n₀,
    n₀ = (N - Σ over groups of Σ n² / Σ n) / (R - G),

for N trials in R runs of n trials each, in G groups. The more trials a run has, the smaller the share that
more trials can still remove: the deviation of a run's average never falls below *between*.

Runs may resemble those before them. Such noise is modelled as the sum of two parts, one without memory and
one that fades with every run: the correlation of two runs at a distance of k runs is g r^k. With g = 1 it is
an autoregression; with a smaller g, a machine that is in one of two modes for days, and ordinary noise. The
strength of the memory is unknown: a grid of g and r is weighted by the likelihood of the periodogram I,

    ln L = - Σ ln f(ω) - m ln (Σ I(ω) / f(ω)),    f(ω) = 1 - g + g (1 - r²) / (1 - 2 r cos ω + r²),

over the m Fourier frequencies ω. A step that is removed takes a part of the memory along; one that is left
looks like a memory. The likelihoods of both are added, that with the step removed divided by n, the number of
runs: beforehand a step is improbable. Averages of w runs have the variance

    v(w) = (1 + 2 g (r / (1-r) - r (1 - r^w) / (w (1-r)²))) / w

relative to that of single runs. The probability of an error is the weighted sum over all points of the grid:
a short history cannot exclude a memory.

The tails limit the weight of far-off runs. A run five deviations off is a change in a trace that is normal,
and an ordinary night in one whose tails are heavy. The runs of the trace decide which it is: five
distributions about the median are weighted by their likelihoods: the normal one, Student's t of 4 and of 2
degrees of freedom, and two in which a part of the runs has a wide distribution. With them, the probability of
a run as far off as each one is

    p = sum over distributions of  weight · P(a run is at least this far off, on this side),

and the run counts as the normal score of p. The tails of a young trace are not known: there a single far run
counts as three to four deviations, however far it is.

Source: Searle, Casella and McCulloch, Variance Components, 1992, section 3.6, for the variances; Whittle,
Estimation and information in stationary time series, 1953, for the likelihood of a memory; Bartlett, On the
theoretical specification and sampling properties of autocorrelated time-series, 1946, for the degrees of
freedom; Wallace, Bounds on normal approximations to Student's and the chi-square distributions, 1959; Lange,
Little and Taylor, Robust statistical modeling using the t distribution, 1989, and Box and Tiao, A Bayesian
approach to some outlier problems, 1968, for the tails.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from perftrend import errors
from perftrend.model import Group, Samples

_POINTS = ((0.0, 0.0), *((g, r) for r in (0.3, 0.5, 0.8) for g in (0.5, 0.8, 1.0)))
_G = np.array([[g] for g, _ in _POINTS])
_R = np.array([[r] for _, r in _POINTS])
_NO_MEMORY = 0.7
"""The prior probability that noise has no memory."""
_MODES = {(0.5, 0.8): 5.0, (0.8, 0.8): 2.0}
"""The priors of modes that last for a week, relative to other memories: weak ones are easily overlooked."""
_WITH_MEMORY = np.array([0.0, *(_MODES.get(point, 1.0) for point in _POINTS[1:])])
_PRIOR = (1 - _NO_MEMORY) * _WITH_MEMORY / float(_WITH_MEMORY.sum())
_PRIOR[0] = _NO_MEMORY
_CACHED = 512
"""The number of trace lengths for which tables are cached."""

LONG_RUN = 1 + 2 * _G * _R / (1 - _R)
"""The factor by which a memory increases the variance of the average of many runs, shape (points, 1)."""

_SHARED = 1 + 2 * _G**2 * _R**2 / (1 - _R**2)
"""The number of runs that give one degree of freedom of the deviation, shape (points, 1)."""

_WIDE = 10.0
"""The distance in deviations that contains half of the runs of the wide distribution."""

_SCALES = np.exp(np.linspace(-0.4, 0.4, 5))
"""The scales that each distribution may have, around the scale that the quartiles give."""

_LEAST_CHANCE = 1e-290
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class TraceNoise:
    """The noise of the results of one trace without changes, in the unit of its samples."""

    within: float
    """Standard deviation of the trials of one run; NaN if no run has two."""
    between: float
    """Standard deviation of runs, beyond what their trials explain; NaN if no group has two
    runs. If no run has two trials it is the whole deviation of the runs."""
    runs: int
    trials: int

    def deviation(self, trials: int) -> float:
        """Return the standard deviation of the average of one run with a number of trials."""
        if math.isnan(self.within):
            return self.between
        return math.hypot(self.between, self.within / math.sqrt(trials))

    @property
    def share_between(self) -> float:
        """The fraction of a trial's variance that is between runs (intraclass correlation)."""
        if math.isnan(self.within):
            return math.nan
        total = self.between**2 + self.within**2
        return self.between**2 / total if total else 0.0


def noise(runs: Sequence[ArrayLike], groups: Sequence[Group]) -> TraceNoise:
    """Estimate both deviations from the history of a trace.

    :param runs: the samples of each run in the order of time, n arrays of any size; values that are not
        finite are ignored, and a run may have none.
    :param groups: the partition of the runs' averages; runs outside of all groups do not count.
    :raises SettingsError: if a group reaches beyond the runs.
    """
    if groups and groups[-1].stop > len(runs):
        raise errors.SettingsError(
            f"noise: a group ends at run {groups[-1].stop} of {len(runs)}; give the samples of all runs"
        )
    squares_within = squares_between = share = 0.0
    trials = run_count = group_count = 0
    for group in groups:
        samples = [_finite(each) for each in runs[group.start : group.stop]]
        samples = [each for each in samples if each.size]
        if not samples:
            continue
        sizes = np.array([each.size for each in samples])
        averages = np.array([each.mean() for each in samples])
        centre = np.average(averages, weights=sizes)
        squares_within += sum(float(((each - each.mean()) ** 2).sum()) for each in samples)
        squares_between += float((sizes * (averages - centre) ** 2).sum())
        share += float((sizes**2).sum() / sizes.sum())
        trials += int(sizes.sum())
        run_count += sizes.size
        group_count += 1
    freedom_within, freedom_between = trials - run_count, run_count - group_count
    within = squares_within / freedom_within if freedom_within else math.nan
    between = math.nan
    if freedom_between:
        explained = within if freedom_within else 0.0
        typical_size = (trials - share) / freedom_between
        between = math.sqrt(max(squares_between / freedom_between - explained, 0.0) / typical_size)
    return TraceNoise(math.sqrt(within), between, run_count, trials)


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


def memory_weights(values: Samples, runs: int) -> Samples:
    """Return the probability of each memory, shape (points,), with and without a step; they sum to 1.

    :param values: run averages in the order of time, finite, shape (n,), any unit.
    :param runs: how many of the newest runs are after the step, if there is one, from 1 to n - 1.
    """
    no_step = _log_likelihoods(values - values.mean())
    step = _log_likelihoods(_residuals(values, runs))
    fit = np.logaddexp(no_step, step - math.log(values.size))
    weights: Samples = _PRIOR * np.exp(fit - fit.max())
    return weights / float(weights.sum())


def step_chance(values: Samples, runs: int) -> float:
    """Return the probability that noise alone causes a step of at least this size between two averages.

    :param values: run averages, finite, shape (n,), any unit, without another change of the trend.
    :param runs: how many of the newest runs are after the step, from 1 to n - 1.
    :returns: the probability of both directions together, for one place, averaged over all memories.
    """
    step = float(values[-runs:].mean() - values[:-runs].mean())
    rest = _residuals(values, runs)
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
    return float(memory_weights(values, runs) @ chances)


def normal_score(ratio: Samples, freedom: float | Samples) -> Samples:
    """Return the normal score that is as improbable as Student's t = √(freedom ratio), by Wallace 1959."""
    score: Samples = (8 * freedom + 1) / (8 * freedom + 3) * np.sqrt(freedom * np.log1p(ratio))
    return score


def tail_scores(values: Samples, known: int) -> Samples:
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
    scores = np.array([-_NORMAL.inv_cdf(min(max(each, _LEAST_CHANCE), 0.5)) for each in chances.tolist()])
    signed: Samples = np.sign(offsets) * scores
    return signed


def _residuals(values: Samples, runs: int) -> Samples:
    """Return what a step before the newest runs leaves: the deviations from the averages of both sides."""
    before, after = values[:-runs], values[-runs:]
    return np.concatenate([before - before.mean(), after - after.mean()])


def _log_likelihoods(rest: Samples) -> Samples:
    """Return ln L of each memory, shape (points,); all are equal and the greatest if nothing is left."""
    frequencies = (rest.size - 1) // 2
    power = np.abs(np.fft.rfft(rest)[1 : frequencies + 1]) ** 2
    if not power.any():
        return np.full(len(_POINTS), sys.float_info.max)
    logs, spectrum = _spectra(rest.size)
    fit: Samples = -logs - frequencies * np.log((power / spectrum).mean(axis=1))
    return fit


def _finite(samples: ArrayLike) -> Samples:
    values = np.atleast_1d(np.asarray(samples, dtype=np.float64))
    return values[np.isfinite(values)]


@lru_cache(maxsize=_CACHED)
def _spectra(size: int) -> tuple[Samples, Samples]:
    frequencies = (size - 1) // 2
    cosines = np.cos(2 * np.pi / size * np.arange(1, frequencies + 1))
    spectrum = 1 - _G + _G * (1 - _R**2) / (1 - 2 * _R * cosines + _R**2)
    return np.log(spectrum).sum(axis=1), spectrum


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
