"""Trend compliance: Last Trend, Runs and Long-Term Change.

The trend at a time t is the average of the group that the sample at t belongs to. Time is
counted in samples: one week is 10 of them, or 5 where the topology has one testbed, and three
months are 180 days or 180 samples, whichever comes first on the way back.

Source: "Trend Analysis", sections Trend Compliance and Caveats.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from perftrend.analysis.mdl import Partition
from perftrend.model import Better, Samples

WEEK_RUNS = 10
"""One week, where the topology has several testbeds."""

WEEK_RUNS_ONE_TESTBED = 5
"""One week, where the topology has one testbed."""

QUARTER_RUNS = 180
QUARTER = timedelta(days=180)


@dataclass(frozen=True, slots=True)
class Compliance:
    """How the newest trend stands, and how far it can be relied on."""

    trend: float
    """Last Trend, in the unit of the samples; NaN where there is no sample."""
    runs: int
    """Number of samples in the last group."""
    long_term_change: float
    """(trend[last] - reference) / reference; NaN without samples or where the reference is 0."""


def compliance(
    found: Partition,
    samples: Samples,
    *,
    times: Sequence[datetime],
    better: Better,
    week_runs: int = WEEK_RUNS,
) -> Compliance:
    """Calculate the compliance metrics of a series.

    The reference is the best trend from three months ago to one week ago, both included: the
    highest where higher is better, else the lowest. Where the history does not go back a week,
    it is the earliest trend. Where the runs of 180 days do not make a week, it is the trend of
    one week ago.

    :param found: the partition of ``samples``.
    :param samples: run averages, shape (n,), NaN where a run has none.
    :param times: when the runs started, n of them, in order.
    :param better: which direction of the trace is good.
    :param week_runs: samples in one week.
    """
    present = np.flatnonzero(np.isfinite(samples))
    if not present.size:
        return Compliance(math.nan, 0, math.nan)
    trends = found.trends(samples.size)[present]
    start, stop = _reference_span([times[position] for position in present.tolist()], week_runs)
    span = trends[start : stop + 1]
    reference = float(span.max() if better is Better.HIGHER else span.min())
    trend = float(trends[-1])
    return Compliance(
        trend=trend,
        runs=int(np.count_nonzero(present >= found.groups[-1].start)),
        long_term_change=(trend - reference) / reference if reference else math.nan,
    )


def _reference_span(times: Sequence[datetime], week_runs: int) -> tuple[int, int]:
    """Return the indices of the samples of three months and of one week ago."""
    last = len(times) - 1
    week_ago = max(last - week_runs, 0)
    oldest = times[last] - QUARTER
    within = next(index for index, time in enumerate(times) if time >= oldest)
    quarter_ago = max(last - QUARTER_RUNS, within, 0)
    return min(quarter_ago, week_ago), week_ago
