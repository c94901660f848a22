"""The findings of many traces of a testbed, changes and missing data: of one night, or night by night.

Positions in a trace become commits of the testbed. Data is missing if a trace had values, and has had none
for a number of runs. Only runs of the jobs that gave the trace its last values count, so that a weekly test
is not reported during the week. A failed or invalid result is not a value either.

A dry run of an alert replays the nights, to choose a threshold before the alert is active. Each night uses
only the measurements up to then, and the state of the nights before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.alerts.detectors import ChangeSize, Detector, changes_of
from perftrend.analysis.alerts.findings import (
    Finding,
    FindingKind,
    FindingMatches,
    KnownFinding,
    Threshold,
    common_range,
    match_findings,
)
from perftrend.analysis.reportable_changes import MOVED_RUNS, WATCHED_RUNS
from perftrend.model import Better, MeasuredCommit, Samples, SuspectRange

_LAST_VALUES = 3
"""The number of last columns with a value that, with those between them, show which jobs measure a trace."""
_LEAST_SHARE = 0.5
"""Fraction of the largest share of a job's columns with a value: a job below it measures something else."""

Between: TypeAlias = Callable[[], object]
"""A callback that lets other work run between two traces: each trace needs a millisecond."""


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


def _do_nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class FindingRule:
    """What of the history is reported as a finding."""

    detector: Detector
    threshold: Threshold
    kinds: frozenset[FindingKind]
    recent_runs: int
    """A change that is further back when it is first seen is not reported."""
    silent_runs: int = 0
    """0: missing data is not detected."""
    thresholds: dict[str, Threshold | None] = field(default_factory=dict)
    """The thresholds of traces with their own, by hash; None: the trace is muted."""

    def threshold_of(self, trace: str) -> Threshold | None:
        """Return the threshold for changes of a trace; None: they are never reported."""
        return self.thresholds.get(trace, self.threshold)

    def find(self, history: TraceHistory, *, between: Between = _do_nothing) -> Iterator[Finding]:
        """Yield the findings of at least half of the size that is reported.

        A reported finding is thus not withdrawn as soon as its size falls slightly below the threshold.

        :param between: called after each trace.
        """
        for row, trace in enumerate(history.traces):
            threshold = self.threshold_of(trace) or self.threshold
            for finding in findings_of(
                history, row, detector=self.detector, minimum_change=threshold.change / 2
            ):
                if finding.kind in self.kinds:
                    yield finding
            between()
        if self.silent_runs:
            yield from silences_of(history, runs=self.silent_runs)

    def is_news(self, finding: Finding, places: Sequence[MeasuredCommit]) -> bool:
        """Whether an unknown finding is reported.

        :param places: all commits that are known by now.
        """
        threshold = self.threshold_of(finding.trace)
        if threshold is None or not threshold.passes(finding):
            return False
        return finding.noticed >= places[max(len(places) - self.recent_runs, 0)]


@dataclass(frozen=True, slots=True)
class NightReport:
    """The report of a night."""

    night: MeasuredCommit
    new: tuple[tuple[SuspectRange, tuple[Finding, ...]], ...]
    """New items: the commits, and the findings."""
    joined: int
    """Findings that join items of earlier nights, and are not reported."""
    closed: int
    """Items without any finding left."""


def replay_nights(
    rule: FindingRule, history: TraceHistory, *, nights: int, between: Between = _do_nothing
) -> Iterator[NightReport]:
    """Yield the reports of the newest nights, the oldest first.

    :param between: called after each trace of each night.
    """
    total = history.values.shape[1]
    memory: dict[int, KnownFinding] = {}
    for columns in range(max(total - nights, 0) + 1, total + 1):
        now = history.until(columns)
        night = match_findings(
            tuple(memory.values()),
            tuple(rule.find(now, between=between)),
            is_new=partial(rule.is_news, places=now.places),
            was_looked_at=now.reach().has,
        )
        yield _report_night(now.places[-1], night, memory)
        _remember(night, memory)


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


def _report_night(
    night: MeasuredCommit, matching: FindingMatches, memory: dict[int, KnownFinding]
) -> NightReport:
    open_items = {each.item for each in memory.values() if not each.gone}
    gone = set(matching.gone)
    left = {each.item for each in memory.values() if not each.gone and each.identity not in gone}
    left |= {group.item for group in matching.groups if group.item is not None}
    new = tuple(
        (common_range([each.range for each in group.members]), group.members)
        for group in matching.groups
        if group.item is None
    )
    joined = sum(len(group.members) for group in matching.groups if group.item is not None)
    return NightReport(night, new, joined, len(open_items - left))


def _remember(matching: FindingMatches, memory: dict[int, KnownFinding]) -> None:
    for identity, finding in matching.again.items():
        known = memory[identity]
        memory[identity] = KnownFinding(identity, known.item, known.kind, known.trace, finding.range)
    for identity in matching.gone:
        known = memory[identity]
        memory[identity] = KnownFinding(identity, known.item, known.kind, known.trace, known.range, gone=True)
    for group in matching.groups:
        item = len(memory) if group.item is None else group.item
        for finding in group.members:
            identity = len(memory)
            memory[identity] = KnownFinding(identity, item, finding.kind, finding.trace, finding.range)
