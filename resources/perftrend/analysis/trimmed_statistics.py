"""Trimmed moving statistics: quartiles, outliers, TMA, TMSD, the moving median, three sigma.

All functions take run averages in the order of time, NaN where a run has no value, and return
arrays of the same shape. The statistics of a run are calculated from its window: the last ``window`` runs
with a value *before* it, so that a run does not influence its own verdict.

Quartiles are interpolated linearly between the ranked values: of n values the quartile q
(1/4, 1/2, 3/4) has the rank 1 + q (n-1), definition 7 of Hyndman and Fan, Sample quantiles in
statistical packages, 1996. Fewer than four values have no quartiles; nothing is trimmed then.

Source: "Continuous Performance Trending and Analysis", sections Analysis Metrics and Anomaly
Detection.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perftrend import errors
from perftrend.model import Samples

DEFAULT_WINDOW = 30
"""Runs that a new run is compared with: a month of nights."""

MINIMUM_VALUES = 4
"""Quartiles of fewer values are meaningless."""

OUTLIER_DISTANCE = 1.5
"""In IQR: the distance from the quartiles from which on a value is an outlier."""

SIGMAS = 3.0


@dataclass(frozen=True, slots=True, eq=False)
class MovingStatistics:
    """Statistics of each run's window, all of shape (n,), NaN if the window is too short."""

    first_quartile: Samples
    """Q1, from four values on."""
    moving_median: Samples
    """MM, outliers included, from one value on."""
    third_quartile: Samples
    """Q3, from four values on."""
    trimmed_average: Samples
    """TMA, from one value on."""
    trimmed_deviation: Samples
    """TMSD, from two values on: the sample standard deviation (divisor n-1) about the TMA."""
    sizes: NDArray[np.int64]
    """Values in the window."""
    outliers: NDArray[np.bool_]
    """True if the run itself is an outlier of its window."""

    @property
    def low(self) -> Samples:
        """The lower end of the normal range, TMA - 3 TMSD; NaN if the window is too short."""
        return self._limit(-SIGMAS)

    @property
    def high(self) -> Samples:
        """The upper end of the normal range, TMA + 3 TMSD; NaN if the window is too short."""
        return self._limit(SIGMAS)

    def _limit(self, sigmas: float) -> Samples:
        limit = self.trimmed_average + sigmas * self.trimmed_deviation
        return np.where(self.sizes >= MINIMUM_VALUES, limit, np.nan)


def moving_statistics(samples: Samples, *, window: int = DEFAULT_WINDOW) -> MovingStatistics:
    """Calculate the statistics of every run's window.

    :param samples: run averages, shape (n,), any unit; values that are not finite are ignored.
    :param window: N, the number of earlier runs with a value that are used, at least 4.
    :returns: arrays of shape (n,), also at runs without a value.
    :raises SettingsError: if ``window`` is below 4.
    """
    if window < MINIMUM_VALUES:
        raise errors.SettingsError(
            f"window is {window} runs; give at least {MINIMUM_VALUES}, quartiles of fewer are meaningless"
        )
    present = np.isfinite(samples)
    ranked = np.sort(_windows(samples, present, window), axis=1)
    sizes = np.isfinite(ranked).sum(axis=1)
    enough = sizes >= MINIMUM_VALUES
    first, median, third = (_quartile(ranked, sizes, q) for q in (0.25, 0.5, 0.75))
    extreme = _outside(ranked, first[:, np.newaxis], third[:, np.newaxis]) & enough[:, np.newaxis]
    trimmed = np.where(extreme, np.nan, ranked)
    average, deviation = _average_and_deviation(trimmed, median)
    return MovingStatistics(
        first_quartile=np.where(enough, first, np.nan),
        moving_median=median,
        third_quartile=np.where(enough, third, np.nan),
        trimmed_average=average,
        trimmed_deviation=deviation,
        sizes=sizes,
        outliers=_outside(samples, first, third) & enough & present,
    )


def outliers(samples: Samples, *, window: int = DEFAULT_WINDOW) -> NDArray[np.bool_]:
    """Return a mask of the samples 1.5 IQR or more outside the quartiles of their window.

    A sample that equals a quartile is not an outlier, even if all samples are equal and the IQR is 0.

    :param samples: run averages, shape (n,), any unit, NaN allowed.
    :param window: number of earlier runs with a value that are used, at least 4.
    :returns: True where a sample is an outlier, shape (n,); False if the window has fewer
        than four values.
    :raises SettingsError: if ``window`` is below 4.
    """
    return moving_statistics(samples, window=window).outliers


def _windows(samples: Samples, present: NDArray[np.bool_], window: int) -> Samples:
    """Return each run's window, shape (n, window), filled with NaN if there is less history."""
    values = np.concatenate([np.full(window, np.nan), samples[present]])
    before: NDArray[np.int64] = np.cumsum(present) - present
    windows: Samples = values[before[:, np.newaxis] + np.arange(window)]
    return windows


def _quartile(ranked: Samples, sizes: NDArray[np.int64], q: float) -> Samples:
    """Interpolate in ranked rows, shape (n, window), whose first ``sizes`` entries are values."""
    rank = q * np.maximum(sizes - 1, 0)
    below = np.floor(rank).astype(np.int64)
    rows = np.arange(sizes.size)
    low = ranked[rows, below]
    high = ranked[rows, np.minimum(below + 1, np.maximum(sizes - 1, 0))]
    return low + (rank - below) * (high - low)


def _outside(samples: Samples, first: Samples, third: Samples) -> NDArray[np.bool_]:
    reach = OUTLIER_DISTANCE * (third - first)
    below = (samples < first) & (first - samples >= reach)
    above = (samples > third) & (samples - third >= reach)
    return below | above


def _average_and_deviation(trimmed: Samples, median: Samples) -> tuple[Samples, Samples]:
    """Return average and sample standard deviation of each row, without NaN entries."""
    # Relative to the median the average of equal values is exact: a constant series stays normal.
    offsets = trimmed - median[:, np.newaxis]
    counts = np.isfinite(offsets).sum(axis=1)
    offset = np.nansum(offsets, axis=1) / np.maximum(counts, 1)
    distances = np.nan_to_num(offsets - offset[:, np.newaxis])
    deviation = np.linalg.norm(distances, axis=1) / np.sqrt(np.maximum(counts - 1, 1))
    return np.where(counts > 0, median + offset, np.nan), np.where(counts > 1, deviation, np.nan)
