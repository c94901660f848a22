"""Variance between runs and within runs of a trace without changes.

The trials of one run share the effects of the machine's restart: the runs are further
apart than their trials suggest. Both variances are estimated from the history, without the changes of
the trend, by the analysis of variance of a random effect,

    within² = Σ (x - run average)² / (N - R),
    between² = (Σ n (run average - group average)² / (R - G) - within²) / n₀,
    n₀ = (N - Σ over groups of Σ n² / Σ n) / (R - G),

for N trials in R runs of n trials each, in G groups. The more trials a run has, the smaller the
share that more trials can still remove: the deviation of a run's average never falls below
*between*.

Source: Searle, Casella and McCulloch, Variance Components, 1992, section 3.6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from perftrend import errors
from perftrend.model import Group, Samples


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


def _finite(samples: ArrayLike) -> Samples:
    values = np.atleast_1d(np.asarray(samples, dtype=np.float64))
    return values[np.isfinite(values)]
