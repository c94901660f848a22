r"""The likelihood of the measurements of one test, without a change and with one, under two models of noise.

The first is normal noise. The level y of each measurement, at time t and with the error e (see
:mod:`perftrend.analysis.comparison.observations`), is

    y = μ + Σ Δ a + D(t) + noise,
    S = 100² 1 1ᵀ + q² min(t, t') + c² [same commit] + v² [same variant of a commit] + diag(s² + e) + X,

where a is 1 for measurements of commits that contain the change, s the deviation between runs, q the drift, c
the deviation between commits that change nothing, and v the one between the variants of a commit, if each is
measured in several layouts. X covers changes that were already found. The noise is not estimated: results are
summed over a grid of (s, q, (c, v)). All hypotheses share P = S⁻¹.

Multiples of uuᵀ that are large compared with the rest are added to the inverse, not to S: elimination would
lose the rest.

Source: Golub and Van Loan, Matrix Computations, section 2.1 (the formula of Sherman, Morrison and Woodbury).

The second is noise of any distribution. Machines that switch between speeds have another
distribution, which is learned: each value, without the change Δ, is predicted from those
measured before it, as a kernel density of the width h,

    p(yᵢ) = (1 - ε) mean over k < i of N(yᵢ - Δ aᵢ; y\ :sub:`k` - Δ a\ :sub:`k`, h²) + ε t(yᵢ),

with ε = 1/(i + 2), where t is a broad distribution for values unlike any before. The product of these is the
likelihood, summed over the sizes Δ of a change and the widths h. All builds have the same noise, so two
speeds on both sides of a change show as the same two peaks, moved by Δ.

Source: Dawid, Present position and potential developments: the prequential approach, 1984; Silverman,
Density Estimation for Statistics and Data Analysis, 1986.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.comparison.distributions import LEVEL_DEVIATION, FarOff, Mixture, NoiseGrid, log_sum
from perftrend.analysis.comparison.observations import Floats, Indices, Levels
from perftrend.analysis.comparison.paired_test import unfamiliar

SIZES = np.array([3.0, 15.0, 150.0]) ** 2
"""Variances of a change's size, in squares of about per cent: small ones, large ones, and collapses."""
SIZE_WEIGHTS = np.log([0.475, 0.475, 0.05])
"""Logarithms of their probabilities."""
FLAT_VARIANCE = LEVEL_DEVIATION**2
"""Prior variance of the level, and of the size of a change that was found."""
EXPECTED_DEVIATION, DEVIATION_SPREAD = 0.8, 1.0
"""Deviation between runs, in per cent, and the spread of its logarithm, for tests without a history."""
LAYOUTS = {(0.01, 0.0): 0.85, (0.5, 0.0): 0.1, (1.2, 0.0): 0.05}
"""Deviations between builds that change nothing, and between the variants of one, in about per cent, with
their probabilities: the code has another memory layout."""
VARIED_LAYOUTS = {
    (0.01, 0.01): 0.45, (0.01, 0.3): 0.1, (0.01, 0.6): 0.1, (0.01, 1.0): 0.1, (0.01, 1.6): 0.1,
    (0.5, 0.01): 0.05, (0.5, 0.5): 0.05, (1.2, 0.01): 0.025, (1.2, 0.8): 0.025,
}  # fmt: skip
"""The same if each build is measured in several layouts. The variants show what a layout changes, unless they
vary something else than commits do: the size of the environment moves the stack, and a commit the code."""
FEWEST_BUILDS = 5
"""With fewer builds, their deviation without a change cannot be estimated, and is assumed negligible."""


_IMPOSSIBLE = 1e-300

_RATIO = 1.08
_SIZES = 0.5 * _RATIO ** np.arange(78)
DIFFERENCES = np.concatenate([-_SIZES[::-1], _SIZES])
"""Δ in about per cent: 0.5 to 190 in both directions, equally probable on each scale."""
_WIDTHS: Floats = 12.8 * np.power(0.5, np.arange(8, dtype=np.float64))
"""h in about per cent, the widest first: each kernel is the previous one to the power of four."""
_FEWEST = 4
"""Minimum number of widths, however much the samples of a measurement differ."""
_LEAST_VARIANCE = 0.01
_VARIANCES = (np.abs(DIFFERENCES) * (_RATIO - 1)) ** 2 / 12 + _LEAST_VARIANCE
"""Of the sizes that each of these stands for."""
_CLOSER = 9
"""Number of sizes around one of the grid in the refinement."""
_PEAKS, _SMALL_PEAK = 3, 20.0
"""Maximum number of likely sizes that are refined, and how much less their log-likelihood may be."""
_FIRST = math.log(LEVEL_DEVIATION * math.sqrt(2 * math.pi))
"""Negative logarithm of the probability density of the first value."""
_EXCLUDED = 0.01
_RARER, _GAP = 0.15, 3.0
"""Minimum fraction of the values at each of two levels, and minimum gap between them, in deviations."""
_TEMPER = 0.7
"""Power of the likelihood of a size: the kernels are learned from the same values, so it is too sharp.
Intervals of 95 % contain the true size in 94 to 99 % of simulated cases with it, in 91 to 99 % without."""
_PLAUSIBLE = 8.0
"""Classes whose log-likelihood is lower than the best by more than this are not refined."""
_CACHE_SIZE = 4096
"""Number of likelihoods, 10 kB each: more than a search has classes, tests and ways to use samples."""


class Grid(NamedTuple):
    """The grid of g kinds of noise, in per cent."""

    runs: Floats
    """s, the deviation between runs, (g,)."""
    drift: Floats
    """q, the deviation of the random walk per square root of an hour."""
    layout: Floats
    """c, the deviation between commits that change nothing."""
    variant: Floats
    """v, the deviation between the variants of a commit."""
    prior: Floats
    """Logarithm of the probability."""


@dataclass(frozen=True, eq=False)
class Field:
    """Observations under each noise of the grid, g points, and steps at j classes."""

    levels: Levels
    steps: Floats
    """a of each class, (j, n)."""
    found: Floats
    """a of the changes that were already found, (f, n)."""
    noise: NoiseGrid
    far_off: FarOff

    @property
    def layouts(self) -> Mapping[tuple[float, float], float]:
        """The deviations c and v of the grid, with their probabilities."""
        return VARIED_LAYOUTS if self.levels.variants.any() else LAYOUTS

    @cached_property
    def grid(self) -> Grid:
        """The points of the grid."""
        s, q, prior = self.noise.grid()
        if self.noise.known_deviation is None:
            prior = prior - 0.5 * (np.log(s / EXPECTED_DEVIATION) / DEVIATION_SPREAD) ** 2
        count = len(self.layouts)
        can_be_known = np.unique(self.levels.builds).size >= FEWEST_BUILDS
        shares = tuple(self.layouts.values()) if can_be_known else (1.0, *(count - 1) * (_IMPOSSIBLE,))
        weights = np.log(shares)
        prior = np.add.outer(prior - log_sum(prior), weights).ravel()
        c, v = np.tile(np.transpose(list(self.layouts)), s.size)
        return Grid(np.repeat(s, count), np.repeat(q, count), c, v, prior)

    @cached_property
    def precision(self) -> Floats:
        """P, (g, n, n)."""
        return self._inverse[0]

    @cached_property
    def _inverse(self) -> tuple[Floats, Floats]:
        s, q, c, v, _ = self.grid
        walk = np.minimum.outer(self.levels.at_h, self.levels.at_h)
        same = np.equal.outer(self.levels.builds, self.levels.builds)
        covariance = np.multiply.outer(q**2, walk)
        covariance += np.multiply.outer(c**2, same)
        if v.any():
            same_variant = same & np.equal.outer(self.levels.variants, self.levels.variants)
            covariance += np.multiply.outer(v**2, same_variant)
        index = np.arange(len(self.levels))
        covariance[:, index, index] += np.add.outer(s**2, self.levels.errors)
        flat = np.concatenate([np.ones((1, index.size)), self.found])
        return update_inverse(*inverse(covariance), flat, FLAT_VARIANCE)

    @cached_property
    def pulled(self) -> Floats:
        """Py, (g, n)."""
        return self.precision @ self.levels.y

    @cached_property
    def base(self) -> Floats:
        """Prior and evidence of each point without a step, (g,)."""
        constant = len(self.levels) * math.log(2 * math.pi)
        squares = self.pulled @ self.levels.y
        result: Floats = self.grid.prior - 0.5 * (squares + self._inverse[1] + constant)
        return result

    @cached_property
    def moved(self) -> Floats:
        """Pa, (g, j, n)."""
        return np.ascontiguousarray(np.swapaxes(self.precision @ self.steps.T, 1, 2))

    @cached_property
    def weight(self) -> Floats:
        """aᵀPa', (g, j, j)."""
        return self.moved @ self.steps.T

    @cached_property
    def pull(self) -> Floats:
        """b, (g, j)."""
        return self.pulled @ self.steps.T

    def run_variance(self, point: int) -> float:
        """Return the variance of one run at a point of the grid, both between runs and within them."""
        return float(self.grid.runs[point] ** 2 + self.levels.errors.mean())

    @cached_property
    def diagonal(self) -> Floats:
        """The diagonal of P, (g, n)."""
        diagonal: Floats = np.einsum("gii->gi", self.precision)
        return diagonal

    def rho(self, alpha: Floats, precision: Floats) -> Floats:
        """Return the log ratio of the probabilities of each observation as an outlier and as a usual run."""
        return self.far_off.log_ratio(alpha, precision)


def inverse(covariance: Floats) -> tuple[Floats, Floats]:
    """Return the inverses, (g, n, n), and the logarithms of the determinants, (g,).

    :param covariance: positive definite, (g, n, n).
    :raises LinAlgError: if one is not positive definite.
    """
    root = np.linalg.cholesky(covariance)
    log_determinant = 2 * np.log(np.einsum("gii->gi", root)).sum(axis=1)
    return np.asarray(np.linalg.inv(covariance), np.float64), log_determinant


def update_inverse(
    precision: Floats, log_determinant: Floats, design: Floats, variance: float
) -> tuple[Floats, Floats]:
    """Return the inverses and log determinants of S + variance Σ uuᵀ, given those of S.

    :param precision: (g, n, n).
    :param log_determinant: (g,).
    :param design: the vectors u, (f, n).
    """
    pulled = precision @ design.T
    inner = design @ pulled + np.eye(len(design)) / variance
    inverses, determinants = inverse(inner)
    return (
        precision - pulled @ inverses @ np.swapaxes(pulled, 1, 2),
        log_determinant + determinants + len(design) * np.log(variance),
    )


class Density:
    """The evidence of the values of one test, without an assumption about their noise.

    :param levels: of the n measurements with a value, in the order of measuring.
    :param steps: 1 for measurements of commits that contain the class, (j, n).
    :param found: the steps of changes that were already found, (f, n).
    """

    def __init__(self, levels: Levels, steps: Floats, found: Floats) -> None:
        # Widths below the standard error of a measurement do not describe the structure of the noise.
        least = min(math.sqrt(float(levels.errors.mean())), float(_WIDTHS[_FEWEST - 1]))
        self._count = int((least <= _WIDTHS).sum())
        self._steps = steps
        # Rounded, so that cached results for the same values are found again after another measurement.
        self._set_values(np.round(levels.y + levels.middle, 9))
        for step in found:
            likely, sizes, _ = self._refine(step, self._by_size(step))
            self._set_values(self.y - round(float(sizes[int(np.argmax(likely))]), 1) * step)
        self.by_size: Floats = np.stack([self._by_size(step) for step in steps], axis=1)
        """Log-likelihoods of the values with a change of each size in each class, (d, j)."""
        self._sizes = np.repeat(DIFFERENCES[:, np.newaxis], len(steps), axis=1)
        self._variances = np.repeat(_VARIANCES[:, np.newaxis], len(steps), axis=1)
        best = self.by_size.max(axis=0)
        for chosen in np.flatnonzero(best >= best.max() - _PLAUSIBLE):
            refined = self._refine(steps[chosen], self.by_size[:, chosen])
            self.by_size[:, chosen], self._sizes[:, chosen], self._variances[:, chosen] = refined
        by_width = self._by_width(np.zeros(self.y.size))[0]
        self.none = float(log_sum(by_width) - math.log(self._count))
        """The same without a change."""
        self.one: Floats = log_sum(self.by_size, axis=0)
        """The same with a change of any size in each class, (j,)."""
        self.deviation = float(_WIDTHS[int(np.argmax(by_width))])
        """The width of the kernels that predicts best without a change, in about per cent."""

    def _set_values(self, y: Floats) -> None:
        """Set the values, and what does not depend on a change among them."""
        self.y = y
        """The values, without the changes that were found."""
        self._pairs = np.tril_indices(y.size, -1)
        late, early = self._pairs
        self._alike = [kernel.copy() for kernel in _kernels(y[late] - y[early], self._count)]
        values = tuple(y)
        self._broad = np.array([_broad(values[: at + 1]) for at in range(1, y.size)])

    def size(self, chosen: int) -> Mixture:
        """Return the posterior of the size of a change in a class, in about per cent."""
        likely = _TEMPER * self.by_size[:, chosen]
        return Mixture.of(likely, self._sizes[:, chosen], self._variances[:, chosen])

    def at_least(self, least: float) -> Floats:
        """Return the probability that a change in each class has at least this size, (j,)."""
        shares = np.exp(self.by_size - self.one)
        beyond: Floats = np.where(np.abs(self._sizes) >= least, shares, 0.0).sum(axis=0)
        return beyond

    def apart(self, chosen: int | None) -> float | None:
        """Return the distance between two levels of the values; None if there are not two.

        :param chosen: the class that holds a change, which is removed from the values.
        :returns: in about per cent.
        """
        moved = 0.0
        if chosen is not None:
            most_likely = int(np.argmax(self.by_size[:, chosen]))
            moved = self._sizes[most_likely, chosen] * self._steps[chosen]
        ordered = np.sort(self.y - moved)
        fewest = max(2, math.ceil(_RARER * ordered.size))
        gaps = np.diff(ordered)[fewest - 1 : ordered.size - fewest]
        if not gaps.size:
            return None
        cut = fewest + int(np.argmax(gaps))
        low, high = ordered[:cut], ordered[cut:]
        spread = max(float(low.std()), float(high.std()))
        return float(np.median(high) - np.median(low)) if gaps.max() > _GAP * spread else None

    def upper_limit(self, held: Floats) -> float:
        """Return the size above which changes are a hundred times less probable than no change.

        :param held: the probability of a change in each class, (j,).
        :returns: in about per cent.
        """
        return float(np.abs(DIFFERENCES[self._possible(held)]).max(initial=_SIZES[0]))

    def hides_large_change(self, held: Floats) -> bool:
        """Return whether a large change is possible, although smaller ones are excluded.

        This is so if old commits were measured at one speed of the machine and new ones at the other.

        :param held: the probability of a change in each class, (j,).
        """
        falls, rises = np.split(self._possible(held), 2)
        # From the smallest size on: one that is possible after one that is not.
        return any(bool((np.diff(each.astype(int)) > 0).any()) for each in (falls[::-1], rises))

    def _possible(self, held: Floats) -> NDArray[np.bool_]:
        """Return which sizes are not a hundred times less probable than no change, (d,)."""
        shares = held / held.sum() if held.any() else np.full(held.size, 1 / held.size)
        ratios = np.exp(np.clip(self.by_size - self.none, -700, 700)) @ shares * DIFFERENCES.size
        possible: NDArray[np.bool_] = ratios > _EXCLUDED
        return possible

    def _by_size(self, step: Floats) -> Floats:
        """Return the log-likelihood of the values with a change in one class, by size, (d,)."""
        by_size: Floats = log_sum(self._by_width(step), axis=1) - math.log(self._count * DIFFERENCES.size)
        return by_size

    def _by_width(self, step: Floats) -> Floats:
        """Return the same by size and width, (d, h)."""
        return _likelihood(tuple(self.y), step.astype(np.uint8).tobytes())[:, : self._count]

    def _refine(self, step: Floats, by_size: Floats) -> tuple[Floats, Floats, Floats]:
        """Refine the likely sizes of a change: peaks may be sharper than the grid.

        With two speeds, a size that moves the slower one to the faster one explains most values, too. Which
        of these peaks is the highest does not show before each is refined.

        :returns: the log-likelihoods, the sizes and their variances, (d,) each.
        """
        likely, means, variances = by_size.copy(), DIFFERENCES.copy(), _VARIANCES.copy()
        peaks = _peaks(by_size)
        middles = DIFFERENCES[peaks, np.newaxis]
        sizes = middles * _RATIO ** np.linspace(-0.5, 0.5, _CLOSER)
        by_close = log_sum(self._of_sizes(step, sizes.ravel()), axis=1).reshape(sizes.shape)
        total = log_sum(by_close, axis=1)
        shares = np.exp(by_close - total[:, np.newaxis])
        means[peaks] = (shares * sizes).sum(axis=1)
        spread = (shares * (sizes - means[peaks, np.newaxis]) ** 2).sum(axis=1)
        variances[peaks] = spread + (middles[:, 0] * (_RATIO - 1) / (_CLOSER - 1)) ** 2 / 12 + _LEAST_VARIANCE
        likely[peaks] = total - math.log(self._count * DIFFERENCES.size * _CLOSER)
        return likely, means, variances

    def _of_sizes(self, step: Floats, sizes: Floats) -> Floats:
        """Return the log-likelihood of the values with a change of some sizes, by size and width, (s, h)."""
        late, early = self._pairs
        signs = step[late] - step[early]
        # Only values on different sides of the change move relative to each other.
        across = np.flatnonzero(signs)
        alike = np.flatnonzero(signs == 0)
        moved = (self.y[late] - self.y[early])[across] - sizes[:, np.newaxis] * signs[across]
        rows, alike_rows = late[across], late[alike]
        likely = np.empty((sizes.size, self._count))
        for at, (kernel, apart) in enumerate(zip(self._alike, _kernels(moved, self._count), strict=True)):
            sums = _sum_by(rows, apart, self.y.size)
            sums += np.bincount(alike_rows, kernel[alike], self.y.size)
            density = _predictive_density(sums[:, 1:], np.arange(1, self.y.size), self._broad)
            likely[:, at] = np.log(density).sum(axis=1) - _FIRST
        return likely


def _sum_by(rows: Indices, values: Floats, size: int) -> Floats:
    """Return the sums of values that belong to the same row, (s, size).

    :param rows: of each value, ascending, (v,).
    :param values: (s, v).
    """
    sums = np.zeros((len(values), size))
    if rows.size:
        starts = np.flatnonzero(np.diff(rows, prepend=-1))
        sums[:, rows[starts]] = np.add.reduceat(values, starts, axis=1)
    return sums


def _peaks(by_size: Floats) -> Indices:
    """Return the positions of the highest peaks, and for each one that of its higher neighbour."""
    around = np.pad(by_size, 1, constant_values=-np.inf)
    before, after = around[:-2], around[2:]
    peaks = np.flatnonzero((by_size >= before) & (by_size >= after) & (by_size > by_size.max() - _SMALL_PEAK))
    highest = peaks[np.argsort(-by_size[peaks], kind="stable")][:_PEAKS]
    return np.union1d(highest, highest + np.where(before[highest] > after[highest], -1, 1))


_cache: OrderedDict[tuple[tuple[float, ...], bytes], Floats] = OrderedDict()


def _likelihood(y: tuple[float, ...], step: bytes) -> Floats:
    """Return the log-likelihood of values with a change, by its size and the width, (d, h).

    A search adds one value at a time, so results are cached and extended. Intermediate results are not
    cached: in a long search they would evict what its next step needs.

    :param step: 1 for each value with the change, else 0.
    """
    count, likely = len(y), None
    while count > 1 and (likely := _cache.get((y[:count], step[:count]))) is None:
        count -= 1
    if likely is None:
        likely = np.full((DIFFERENCES.size, _WIDTHS.size), -_FIRST)
    for following in range(max(count, 1), len(y)):
        likely = likely + _increment(y[: following + 1], step[: following + 1])
    _cache[y, step] = likely
    _cache.move_to_end((y, step))
    if len(_cache) > _CACHE_SIZE:
        _cache.popitem(last=False)
    return likely


def _increment(y: tuple[float, ...], step: bytes) -> Floats:
    """Return the log-likelihood of the last value after those before it, (d, h)."""
    known, new = np.array(y[:-1]), y[-1]
    apart = new - known
    same = np.frombuffer(step[:-1], np.uint8) == step[-1]
    # A value with the change is compared with those without it, shifted by its size, and vice versa.
    sizes = DIFFERENCES[:, np.newaxis] * (1 if step[-1] else -1)
    sums = np.empty((DIFFERENCES.size, _WIDTHS.size))
    for at, (own, other) in enumerate(
        zip(_kernels(apart[same], _WIDTHS.size), _kernels(apart[~same] - sizes, _WIDTHS.size), strict=True)
    ):
        sums[:, at] = own.sum() + other.sum(axis=1)
    added: Floats = np.log(_predictive_density(sums, known.size, _broad(y)))
    return added


def _kernels(distances: Floats, count: int) -> Iterator[Floats]:
    """Yield normal densities at distances, the widest first; each is the last one to the power of 4."""
    kernel = np.exp(-0.5 * (distances / _WIDTHS[0]) ** 2)
    for width in _WIDTHS[:count]:
        yield kernel / (width * math.sqrt(2 * math.pi))
        kernel *= kernel
        kernel *= kernel


def _predictive_density(sums: Floats, before: Indices | int, broad: Floats | float) -> Floats:
    """Return the probability density of a value after others.

    :param sums: of the kernels at the others.
    """
    new = 1 / (before + 2)
    likely: Floats = (1 - new) / before * sums + new * broad
    return likely


@lru_cache(maxsize=4096)
def _broad(y: tuple[float, ...]) -> float:
    """Return the probability density of the last value as one unlike any before."""
    return float(unfamiliar(np.array(y[-1] - median(y[:-1]))))
