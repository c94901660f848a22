"""Trend compliance: Last Trend, Runs and Long-Term Change.

The trend at a time t is the average of the group that the sample at t belongs to. Time is
counted in samples: one week is 10 of them, or 5 if the topology has one testbed, and three
months are 180 days or 180 samples, whichever is shorter.

Two times are distinguished. Sample time is when a run was measured: the trend of one week ago is that of
the group in which *today's* analysis puts the run of one week ago. Analysis time is how much was
known: ``series_known_at`` removes what was measured later, so that everything calculated from the
rest is what was, or would have been, reported on that day.

Source: "Trend Analysis", sections Trend Compliance, Caveats, and Sample time and analysis time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from perftrend import errors
from perftrend.analysis.mdl import DEFAULT_FORMULA, Partition, partition
from perftrend.model import Better, Samples, Series

WEEK_RUNS = 10
"""One week, if the topology has several testbeds."""

WEEK_RUNS_ONE_TESTBED = 5
"""One week, if the topology has one testbed."""

QUARTER_RUNS = 180
QUARTER = timedelta(days=180)


@dataclass(frozen=True, slots=True)
class Compliance:
    """The newest trend, the number of its samples, and its long-term change."""

    trend: float
    """Last Trend, in the unit of the samples; NaN without samples."""
    runs: int
    """Number of samples in the last group."""
    long_term_change: float
    """(trend[last] - reference) / reference; NaN without samples or if the reference is 0."""


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
    highest if higher is better, else the lowest. If the history is shorter than a week,
    it is the earliest trend. If 180 days contain fewer runs than a week has, it is the trend of
    one week ago.

    :param found: the partition of ``samples``.
    :param samples: run averages, shape (n,), NaN if a run has none.
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


def compliance_of(
    series: Series,
    *,
    as_of: datetime | None = None,
    formula: str = DEFAULT_FORMULA,
    week_runs: int = WEEK_RUNS,
) -> Compliance:
    """Calculate the compliance metrics of a series as an analysis at a given time would have.

    :param series: the trace with its runs.
    :param as_of: the analysis time, with a time zone; None for now.
    :param formula: the description length formula of the partition.
    :param week_runs: samples in one week.
    :raises SettingsError: if the moment has no time zone.
    """
    known = series if as_of is None else series_known_at(series, as_of)
    return compliance(
        partition(known.samples, formula=formula),
        known.samples,
        times=[run.started for run in known.runs],
        better=known.better,
        week_runs=week_runs,
    )


def series_known_at(series: Series, moment: datetime) -> Series:
    """Return the part of a series that was known at a moment: the runs that had finished by then.

    :param series: the trace with its runs, in the order of time.
    :param moment: the analysis time, with a time zone.
    :raises SettingsError: if the moment has no time zone.
    """
    if moment.tzinfo is None:
        raise errors.SettingsError(
            f"analysis time {moment.isoformat()} has no time zone; write {moment.isoformat()}Z for UTC"
        )
    return series.at([index for index, run in enumerate(series.runs) if run.finished <= moment])


def _reference_span(times: Sequence[datetime], week_runs: int) -> tuple[int, int]:
    """Return the indices of the samples of three months and of one week ago."""
    last = len(times) - 1
    week_ago = max(last - week_runs, 0)
    oldest = times[last] - QUARTER
    within = next(index for index, time in enumerate(times) if time >= oldest)
    quarter_ago = max(last - QUARTER_RUNS, within, 0)
    return min(quarter_ago, week_ago), week_ago
