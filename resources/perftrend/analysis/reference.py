"""Is it the machine? Changes of the product, compared with those of a reference build.

A reference build never changes. Whatever its traces have in common, run by run, is the testbed. If it is
replaced by another version, only the runs of the newest version count. A shift is
the median of up to 10 runs from the first changed one on, compared with the median of up to 30 runs up to the
last good one. Its interval at 99 % is that of Student's t. The deviation of a run is estimated robustly from
the runs before; the variance of averages includes that runs resemble each other (:mod:`.families.nights`).

The testbed is the cause of a change if the reference build shifted in the same direction, certainly, if both
shifts differ by no more than chance explains, and by at most half of the change. The reference excludes the
testbed if its interval does not contain half of the change. Anything else is undecided.

Source: for the variance of a median, π/2 times that of an average, Cramér, Mathematical Methods of
Statistics, 1946, section 28.5.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

import numpy as np

from perftrend.analysis.families import SharedChange, values_by_run
from perftrend.analysis.families.nights import MAD_PER_SIGMA, Nights, autocorrelations, memory_of
from perftrend.analysis.significance import quantile
from perftrend.model import (
    PRODUCT,
    REFERENCE,
    Better,
    Change,
    Direction,
    Outcome,
    Samples,
    Series,
    Verdict,
    reported_change,
)

LEVEL = 0.99
"""Probability of the intervals."""
_BEFORE, _AFTER = 30, 10
"""Maximum number of runs that are compared."""
LEAST_BEFORE = 8
"""Runs before a change that are needed to know the noise."""
_FEW = 3
"""The median of fewer values is their average."""
_SIGMAS_95 = 1.96
_SMALLEST_SCALE = 1e-4
"""Deviation of a trace that hardly varies."""


class Blame(StrEnum):
    """What a reference build says about the cause of a change."""

    TESTBED = "testbed"
    PRODUCT = "product"
    """The change is not that of the testbed."""
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Shift:
    """A shift of the level, as a difference of logarithms; positive is better."""

    size: float
    error: float
    """Standard error."""
    freedom: int
    """Degrees of freedom of the error."""

    @property
    def reach(self) -> float:
        """Half of the width of the interval."""
        return self.error * quantile(LEVEL, self.freedom)

    @property
    def interval(self) -> tuple[float, float]:
        """The relative shift, its least and its largest value."""
        return math.expm1(self.size - self.reach), math.expm1(self.size + self.reach)


@dataclass(frozen=True, slots=True)
class ReferenceFinding:
    """The shift of a reference build at the place of a change, and what it says."""

    shift: Shift
    blame: Blame

    def __str__(self) -> str:
        low, high = (f"{100 * each:+.1f}" for each in self.shift.interval)
        if self.blame is Blame.TESTBED:
            return f"the reference build changed as well ({low} to {high} %): the testbed, not a commit"
        if self.blame is Blame.PRODUCT:
            return f"the reference build did not ({low} to {high} %)"
        return f"the reference build changed by {low} to {high} %, which does not decide"


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceTrend:
    """What the runs of the reference build have in common."""

    moments: Sequence[datetime]
    """When each run started, ascending."""
    common: Samples
    """Differences of logarithms from the usual level, NaN if a run has no value; positive is better."""

    @classmethod
    def of(cls, moments: Sequence[datetime], values: Samples, *, lower_is_better: bool) -> ReferenceTrend:
        """Return the trend of the traces of a reference build.

        :param values: shape (runs, traces), NaN for gaps.
        """
        usable = np.isfinite(values) & (values > 0)
        chosen = usable.sum(axis=0) > LEAST_BEFORE
        values, usable = values[:, chosen], usable[:, chosen]
        if not values.shape[1]:
            return cls(moments, np.full(len(moments), np.nan))
        logarithms = np.log(np.where(usable, values, np.nan))
        common = Nights.of(-logarithms if lower_is_better else logarithms).common
        return cls(moments, np.where(usable.any(axis=1), common, np.nan))

    def until(self, moment: datetime) -> ReferenceTrend:
        """Return the trend of the runs that had started by a moment."""
        known = [place for place, each in enumerate(self.moments) if each <= moment]
        return replace(self, moments=[self.moments[place] for place in known], common=self.common[known])

    def compare(self, change: Shift, last_good: datetime, first_changed: datetime) -> ReferenceFinding | None:
        """Return what the reference build says about a change.

        It is usually measured shortly before the product. So its last run before the first changed one counts
        as one after the change. If more than a quarter of the time since the last good run lies between the
        two, the testbed may have changed meanwhile, and the product is not blamed before the next run. Runs
        within a quarter of that time after the last good one count as before the change, others between them
        are left out.

        :param last_good: start of the last run before the change.
        :param first_changed: start of the first run after it.
        :returns: None if the reference build has no run after the change, or too few before it.
        """
        near = (first_changed - last_good) / 4
        known = [each for each, value in zip(self.moments, self.common, strict=True) if math.isfinite(value)]
        between = [each for each in known if last_good + near < each < first_changed]
        begin = between[-1] if between else first_changed
        shift = estimate_shift(self.moments, self.common, last_good + near, begin)
        if shift is None:
            return None
        blame = _blame(change, shift)
        is_early = begin < first_changed - near and known[-1] < first_changed
        if blame is Blame.PRODUCT and is_early:
            blame = Blame.UNDECIDED
        return ReferenceFinding(shift, blame)

    def judge(
        self,
        moments: Sequence[datetime],
        values: Samples,
        last_good: datetime,
        first_changed: datetime,
        *,
        better: Better,
    ) -> ReferenceFinding | None:
        """Return what the reference build says about the change of a trace; None if nothing is known.

        :param moments: when the runs of the trace started, ascending.
        :param values: those of the runs, NaN for gaps.
        """
        with np.errstate(invalid="ignore"):
            logarithms = np.log(np.where(values > 0, values, np.nan))
        sign = -1.0 if better is Better.LOWER else 1.0
        own = estimate_shift(moments, sign * logarithms, last_good, first_changed)
        return self.compare(own, last_good, first_changed) if own else None


ReferenceTrends: TypeAlias = Mapping[tuple[str, Better], ReferenceTrend]
"""The trends of a reference build, by unit and better direction: latencies do not move as rates do."""


def reference_trends(series: Iterable[Series]) -> ReferenceTrends:
    """Return the trends of the reference build of a testbed; empty if none was measured."""
    kinds: dict[tuple[str, Better], list[Series]] = {}
    for one in series:
        if one.key.experiment == REFERENCE and one.runs:
            kinds.setdefault((one.unit, one.better), []).append(one)
    return {kind: _trend(own) for kind, own in kinds.items()}


def _trend(series: Sequence[Series]) -> ReferenceTrend:
    runs, values = values_by_run(series)
    same = [run.versions.get(PRODUCT) == runs[-1].versions.get(PRODUCT) for run in runs]
    moments = [run.started for run, is_same in zip(runs, same, strict=True) if is_same]
    return ReferenceTrend.of(moments, values[same], lower_is_better=series[0].better is Better.LOWER)


def judge_by_reference(verdict: Verdict, trends: ReferenceTrends) -> Verdict:
    """Return a verdict with what the reference build says about the change that it reports.

    A regression of the testbed has the outcome TESTBED. So has one of the reference build itself, unless it
    was replaced.
    """
    change, series = reported_change(verdict), verdict.series
    if change is None or change.position >= len(series.runs):
        return verdict
    first, last = ends_of(change, len(series.runs))
    if series.key.experiment == REFERENCE:
        is_same = series.runs[first].versions.get(PRODUCT) == series.runs[last].versions.get(PRODUCT)
        why = "is the same: the testbed has changed" if is_same else "was replaced"
        outcome = _of_testbed(verdict.outcome) if is_same else verdict.outcome
        return replace(verdict, outcome=outcome, reason=f"{verdict.reason}; the reference build {why}")
    trend = trends.get((series.unit, series.better))
    if trend is None:
        return verdict
    moments = [run.started for run in series.runs]
    ends = moments[first], moments[last]
    found = trend.judge(moments, series.samples, ends[0], ends[1], better=series.better)
    if found is None:
        return verdict
    outcome = _of_testbed(verdict.outcome) if found.blame is Blame.TESTBED else verdict.outcome
    return replace(verdict, outcome=outcome, reason=f"{verdict.reason}; {found}")


def explain_shared_changes(
    changes: Iterable[SharedChange], trends: ReferenceTrends
) -> Iterator[SharedChange]:
    """Yield changes that many traces share; those of all traces with what the reference build says."""
    rates = [trend for (_, better), trend in trends.items() if better is Better.HIGHER]
    for change in changes:
        found = None
        if rates and not change.parameters:
            reach = (math.log1p(change.high) - math.log1p(change.low)) / 2
            own = Shift(math.log1p(change.change), reach / _SIGMAS_95, _BEFORE)
            found = rates[0].compare(own, change.last_good.started, change.first_changed.started)
        yield replace(change, reference=found)


def estimate_shift(
    moments: Sequence[datetime],
    values: Samples,
    last_good: datetime,
    first_changed: datetime,
    *,
    least_scale: float = 0.0,
) -> Shift | None:
    """Return the shift between two runs.

    :param moments: when each run started, ascending.
    :param values: of any unit, such as logarithms; NaN for gaps, shape (runs,).
    :param least_scale: the least deviation of a run, relative to the larger of both medians.
    :returns: None if there is no value after the change, or too few before it.
    """
    known = [
        (moment, float(value)) for moment, value in zip(moments, values, strict=True) if math.isfinite(value)
    ]
    before = np.array([value for moment, value in known if moment <= last_good][-_BEFORE:])
    after = np.array([value for moment, value in known if moment >= first_changed][:_AFTER])
    if before.size < LEAST_BEFORE or not after.size:
        return None
    scale = float(np.median(np.abs(before - np.median(before)))) / MAD_PER_SIGMA
    correlations, _ = autocorrelations(before[:, np.newaxis])
    memory = memory_of(correlations[:, 0], before.size)
    variance = sum(
        (math.pi / 2 if size >= _FEW else 1.0) * float(memory.inflation(size)[-1]) / size
        for size in (before.size, after.size)
    )
    old, new = float(np.median(before)), float(np.median(after))
    error = max(scale, _SMALLEST_SCALE, least_scale * max(abs(old), abs(new))) * math.sqrt(variance)
    return Shift(new - old, error, before.size - 1)


def ends_of(change: Change, runs: int) -> tuple[int, int]:
    """Return the positions that a change is between; the runs next to it if that is not known."""
    before, after = change.position - 1, change.position
    if change.last_before is not None:
        before = min(change.last_before, before)
    if change.first_after is not None:
        after = max(change.first_after, after)
    return max(before, 0), min(after, runs - 1)


def _blame(change: Shift, reference: Shift) -> Blame:
    rest = abs(change.size - reference.size)
    chance = math.hypot(change.error, reference.error) * quantile(
        LEVEL, min(change.freedom, reference.freedom)
    )
    is_certain = abs(reference.size) > reference.reach and reference.size * change.size > 0
    if is_certain and rest <= min(chance, abs(change.size) / 2):
        return Blame.TESTBED
    half = math.copysign(abs(change.size) / 2, change.size)
    if (reference.size - half) * math.copysign(1.0, half) < -reference.reach:
        return Blame.PRODUCT
    return Blame.UNDECIDED


def _of_testbed(outcome: Outcome) -> Outcome:
    return Outcome.TESTBED if outcome.value == Direction.REGRESSION.value else outcome
