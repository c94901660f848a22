"""The findings of many traces of a testbed, changes and missing data.

Positions in a trace become commits of the testbed. Data is missing if a trace had values, and has had none
for a number of runs. Only runs of the jobs that gave the trace its last values count, so that a weekly test
is not reported during the week. A failed or invalid result is not a value either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.alerts.detectors import ChangeSize, Detector, changes_of
from perftrend.analysis.alerts.findings import (
    Finding,
    FindingKind,
    KnownFinding,
    MeasuredCommit,
    SuspectRange,
)
from perftrend.analysis.reportable_changes import MOVED_RUNS, WATCHED_RUNS
from perftrend.model import Better, Samples

_LAST_VALUES = 3
"""The number of last columns with a value that, with those between them, show which jobs measure a trace."""
_LEAST_SHARE = 0.5
"""Fraction of the largest share of a job's columns with a value: a job below it measures something else."""


@dataclass(frozen=True, slots=True, eq=False)
class TraceHistory:
    """Values of n traces of a testbed over its newest commits."""

    traces: tuple[str, ...]
    """The hashes of the traces, n of them."""
    better: tuple[Better, ...]
    values: Samples
    """Shape (n, columns), NaN if there is no value."""
    places: tuple[MeasuredCommit, ...]
    """The commits, in the order of time."""
    jobs: tuple[frozenset[str], ...] = ()
    """The jobs whose runs each commit has; needed to find missing data."""

    def until(self, columns: int) -> TraceHistory:
        """Return the history as it was known with the first columns only."""
        return TraceHistory(
            self.traces, self.better, self.values[:, :columns], self.places[:columns], self.jobs[:columns]
        )

    def reach(self) -> Reach:
        """Return the commit from which on findings of each trace can be found."""
        # With fewer values before it a change may not be detected.
        enough = np.cumsum(np.isfinite(self.values), axis=1) >= WATCHED_RUNS
        changes = {
            trace: self.places[int(np.argmax(row))]
            for trace, row in zip(self.traces, enough, strict=True)
            if row.any()
        }
        return Reach(dict.fromkeys(self.traces, self.places[0]), changes)


@dataclass(frozen=True, slots=True)
class Reach:
    """The commit from which on a history contains findings, by trace."""

    silences: Mapping[str, MeasuredCommit]
    changes: Mapping[str, MeasuredCommit]

    def has(self, known: KnownFinding) -> bool:
        """Whether a known finding would be found if it were still there."""
        begin = (self.silences if known.kind is FindingKind.SILENCE else self.changes).get(known.trace)
        return begin is not None and known.range.last_good >= begin


def findings_of(
    history: TraceHistory, row: int, *, detector: Detector, minimum_change: float
) -> tuple[Finding, ...]:
    """Return the changes of a trace as findings.

    :param row: the row of the trace.
    :param minimum_change: smaller ones do not count, relative to the value before.
    """
    columns = history.values.shape[1]
    first = max(columns - detector.history, 0)
    samples = history.values[row, first:]
    present = np.flatnonzero(np.isfinite(samples)) + first
    changes = changes_of(
        samples, better=history.better[row], detector=detector, minimum_change=minimum_change
    )
    return tuple(_finding(history, row, change, first, present) for change in changes)


def silences_of(history: TraceHistory, *, runs: int) -> Iterator[Finding]:
    """Yield the traces without values in this number of runs of their jobs, as findings."""
    for row, last, enough in silent_traces(history.values, history.jobs, runs=runs):
        span = range_of(history.places, last, last + 1)
        value = float(history.values[row, last])
        yield Finding(
            FindingKind.SILENCE,
            history.traces[row],
            span,
            span,
            before=value,
            silent_since=history.places[enough],
        )


def range_of(places: Sequence[MeasuredCommit], last_good: int, first_changed: int) -> SuspectRange:
    """Return the commits after a column up to another one.

    Columns that began at the same moment cannot be distinguished: the range then begins earlier or ends
    later.
    """
    first = last_good
    while first and not places[first] < places[first_changed]:
        first -= 1
    last = first_changed
    while last + 1 < len(places) and not places[first] < places[last]:
        last += 1
    return SuspectRange(places[first], places[last])


def silent_traces(
    values: Samples, jobs: Sequence[frozenset[str]], *, runs: int
) -> list[tuple[int, int, int]]:
    """Find the traces with missing data.

    :param values: shape (n, columns), NaN if there is no value.
    :param jobs: the jobs that have runs in each column.
    :param runs: the number of consecutive runs that have to be without a value.
    :returns: for each such trace its row, the column of its last value, and the column of the last of
        these runs.
    """
    present = np.isfinite(values)
    columns = values.shape[1]
    if not columns:
        return []
    last = columns - 1 - np.argmax(present[:, ::-1], axis=1)
    candidates = np.flatnonzero(present.any(axis=1) & (columns - 1 - last >= runs))
    found = []
    for row in candidates.tolist():
        column = int(last[row])
        measuring_jobs = find_measuring_jobs(present[row], jobs)
        without = [number for number in range(column + 1, columns) if measuring_jobs & jobs[number]]
        if len(without) >= runs:
            found.append((row, column, without[runs - 1]))
    return found


def find_measuring_jobs(present: NDArray[np.bool_], jobs: Sequence[frozenset[str]]) -> frozenset[str]:
    """Return the jobs that measure a trace: those in all of its last columns, or else in any of them.

    Runs of several jobs may be of one commit, and share a column then. The columns without a value
    distinguish them: a job that ran without measuring the trace does not belong to it.

    :param present: shape (columns,), whether there is a value.
    :param jobs: the jobs that have runs in each column.
    :returns: an empty set if there is no value.
    """
    values = np.flatnonzero(present)[-_LAST_VALUES:].tolist()
    if not values:
        return frozenset()
    # A single value has no columns between values; then the columns before it have to decide.
    columns = range(values[0] if len(values) > 1 else 0, values[-1] + 1)
    shares = {
        job: sum(job in jobs[each] for each in values) / sum(job in jobs[each] for each in columns)
        for job in _there(jobs[each] for each in values)
    }
    largest = max(shares.values(), default=0.0)
    return frozenset(job for job, share in shares.items() if share >= _LEAST_SHARE * largest)


def _finding(
    history: TraceHistory,
    row: int,
    change: ChangeSize,
    first: int,
    present: np.ndarray[tuple[int], np.dtype[np.intp]],
) -> Finding:
    start, stop = change.last_before + first, change.first_after + first
    rank = int(np.searchsorted(present, change.position + first))
    # The start of a change may move by MOVED_RUNS values from one night to the next.
    low = int(present[max(rank - 1 - MOVED_RUNS, 0)])
    high = int(present[min(rank + MOVED_RUNS, len(present) - 1)])
    return Finding(
        kind=FindingKind(change.direction.value),
        trace=history.traces[row],
        range=range_of(history.places, start, stop),
        near=range_of(history.places, min(start, low), max(stop, high)),
        before=change.before,
        after=change.after,
        low=change.low,
        high=change.high,
        confidence=change.confidence,
    )


def _there(jobs: Iterable[frozenset[str]]) -> frozenset[str]:
    sets = list(jobs)
    return frozenset.intersection(*sets) or frozenset.union(*sets)
