"""Sentences that explain the outcome of the newest run to users."""

from __future__ import annotations

import numpy as np

from perftrend.analysis.reportable_changes import Findings
from perftrend.analysis.sequential import SuspectedChange
from perftrend.analysis.shape import ChangeShape
from perftrend.analysis.significance import sample_count
from perftrend.analysis.trimmed_statistics import MINIMUM_VALUES, SIGMAS, MovingStatistics
from perftrend.model import Series

SUSPECTED = "; suspected: the next runs decide"
"""The ending of the sentence on a newest run that is off."""

FIRST_RUN = "the first run: nothing to compare with yet"


def amount(value: float, unit: str) -> str:
    """Write a value with its unit, packets per second in millions."""
    if unit == "pps":
        return f"{value / 1e6:.4g} Mpps"
    return f"{value:.4g} {unit}".rstrip()


def comparison(value: float, reference: float) -> str:
    """Return the position of a value, ``4.2 % below``, ``above``, ``as``; the reference follows it."""
    if value == reference:
        return "exactly at"
    side = "above" if value > reference else "below"
    return f"{abs((value - reference) / reference):.1%} {side}".replace("%", " %") if reference else side


def within(series: Series, found: Findings) -> str:
    """Describe the position of an unchanged newest run in its group."""
    if np.count_nonzero(np.isfinite(series.samples)) == 1:
        return FIRST_RUN
    group = found.partition.groups[-1]
    return (
        f"{comparison(float(series.samples[-1]), group.mean)} the trend of "
        f"{_runs(sample_count(group, found.values))} ({amount(group.mean, series.unit)})"
    )


def step(series: Series, found: Findings, *, doubt: str = "") -> str:
    """Compare the last group with the one before; name its first run if that is not the newest one."""
    before, after = found.partition.groups[-2:]
    since = ""
    if after.start < series.samples.size - 1:
        name = series.runs[after.start].name
        since = f", since {name}" if doubt else f", found late: since {name}"
    return (
        f"{comparison(after.mean, before.mean)} the trend of the "
        f"{_runs(sample_count(before, found.values))} before ({amount(before.mean, series.unit)})"
        f"{since}{doubt}"
    )


def sighting(series: Series, found: Findings, seen: SuspectedChange) -> str:
    """Compare the runs since a sighted change with those before it."""
    since = found.confirmed
    count = int(np.count_nonzero(np.isfinite(series.samples[since : seen.position])))
    name = series.runs[seen.position].name
    newest = seen.position == series.samples.size - 1
    return (
        f"{'a slow drift, ' if seen.shape is ChangeShape.DRIFT else ''}{comparison(seen.after, seen.before)} "
        f"the average of the {_runs(count)} before ({amount(seen.before, series.unit)})"
        f"{'' if newest else f', since {name}'}"
    )


def departure(series: Series, moving: MovingStatistics) -> str:
    """Compare the newest run with the normal range of its window."""
    size = int(moving.sizes[-1])
    if size < MINIMUM_VALUES:
        missing = f"only {_runs(size)} before: three sigma needs {MINIMUM_VALUES}"
        return missing if size else FIRST_RUN
    average, value = float(moving.trimmed_average[-1]), float(series.samples[-1])
    low, high = float(moving.low[-1]), float(moving.high[-1])
    place = "in" if low <= value <= high else "outside"
    return (
        f"{comparison(value, average)} the trimmed average of the {_runs(size)} before "
        f"({amount(average, series.unit)}), {place} its range of {SIGMAS:g} sigma, "
        f"{amount(low, series.unit)} to {amount(high, series.unit)}"
    )


def _runs(count: int) -> str:
    return f"{count} run" if count == 1 else f"{count} runs"
