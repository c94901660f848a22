"""Traces of a testbed that the alerts evaluate, and the findings of their detectors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.alerts import (
    Detector,
    Finding,
    FindingKind,
    FindingRule,
    KnownFinding,
    Threshold,
    TraceHistory,
    find_measuring_jobs,
)
from perftrend.analysis.alerts.findings import CHANGES
from perftrend.analysis.alerts.history import Reach
from perftrend.analysis.cycles import CycleHistory, TestName, part_of, without_metric
from perftrend.analysis.formula import Query, Term
from perftrend.analysis.query import TraceTable, parse
from perftrend.analysis.reference import Blame, ReferenceTrend, ReferenceTrends
from perftrend.errors import PerftrendError
from perftrend.model import REFERENCE, Better, MeasuredCommit, SuspectRange
from perftrend.store import Store
from perftrend.store.alerts import Alert, Override, Rules
from perftrend.store.tiles import Axis, StoredTrace

_AT_ONCE = 1000
"""Number of traces read together: 180 columns of them take 20 ms, during which requests wait."""

_EXPERIMENT = "experiment"
"""The parameter of the traces of experiments."""

_KINDS: Mapping[str, frozenset[FindingKind]] = {
    "regression": frozenset({FindingKind.REGRESSION}),
    "progression": frozenset({FindingKind.PROGRESSION}),
    "both": frozenset({FindingKind.REGRESSION, FindingKind.PROGRESSION}),
}


@dataclass(frozen=True, slots=True, eq=False)
class TestbedAlert:
    """An alert on a testbed."""

    alert: Alert
    rule: FindingRule
    rows: NDArray[np.intp]
    """Indices of its traces among those of the testbed, ascending."""

    @property
    def kinds(self) -> frozenset[FindingKind]:
        """Kinds of findings that it searches for in traces."""
        kinds = set(self.rule.kinds)
        if FindingKind.REGRESSION in kinds:
            kinds.add(FindingKind.TESTBED)
        if self.rule.silent_runs:
            kinds.add(FindingKind.SILENCE)
        return frozenset(kinds)


@dataclass(frozen=True, slots=True, eq=False)
class ScanResult:
    """Traces that an evaluation read, and its findings."""

    traces: Mapping[str, StoredTrace]
    """Evaluated traces, by hash."""
    places: tuple[MeasuredCommit, ...]
    found: list[tuple[int, Finding]]
    """Findings, each with the identity of its alert."""
    reach: Mapping[int, Reach]
    """How far back each alert searched, by its identity."""
    watches: Mapping[int, TestbedAlert]
    stopped: bool
    """Whether an alert expects runs of the testbed."""
    silent_from: datetime | None
    """When the next alert reports missing runs, unless a run arrives by then; None: never."""

    def was_looked_at(self, known: KnownFinding) -> bool:
        """Return whether a known finding would have been found if it were still present."""
        if known.kind is FindingKind.STOPPED:
            return self.stopped
        return any(
            known.kind in watch.kinds and self.reach[number].has(known)
            for number, watch in self.watches.items()
        )

    def tellers(self, finding: Finding, alerts: frozenset[int]) -> frozenset[int]:
        """Return the alerts that report a finding as new."""
        return frozenset(each for each in alerts if self.watches[each].rule.is_news(finding, self.places))


def detector_of(rules: Rules, *, outliers: bool) -> Detector:
    """Return the detector of an alert; an ``outliers`` in rules of earlier versions is ignored."""
    return Detector(**{**rules.detector, "outliers": outliers})


def rule_of(rules: Rules, overrides: Sequence[Override], *, outliers: bool, now: datetime) -> FindingRule:
    """Return the search of an alert, with the overrides that are in effect."""
    thresholds: dict[str, Threshold | None] = {}
    for each in overrides:
        mute = each.muted_until is not None and each.muted_until > now
        change = rules.change if each.change is None else each.change
        confidence = rules.confidence if each.confidence is None else each.confidence
        thresholds[each.trace] = None if mute else Threshold(change, confidence)
    return FindingRule(
        detector=detector_of(rules, outliers=outliers),
        threshold=Threshold(rules.change, rules.confidence),
        kinds=_KINDS[rules.direction],
        recent_runs=rules.recent_runs,
        silent_runs=rules.silent_runs,
        thresholds=thresholds,
    )


def watches_of(
    table: TraceTable,
    among: NDArray[np.intp],
    alerts: Sequence[Alert],
    overrides: Sequence[Override],
    *,
    outliers: bool,
    now: datetime,
) -> list[TestbedAlert]:
    """Return the alerts that match at least one trace of a testbed.

    An alert whose query or detector is not valid, because another version created it, is skipped, so that it
    does not stop the others.

    :param among: the rows of the testbed's traces in the table, ascending.
    :param outliers: whether single outlier runs are separated from the groups, according to the settings.
    """
    found = []
    for alert in alerts:
        own = [each for each in overrides if each.alert == alert.identity]
        try:
            chosen = table.rows(_without_experiments(parse(alert.rules.query)))
            _, rows, _ = np.intersect1d(among, chosen, assume_unique=True, return_indices=True)
            rule = rule_of(alert.rules, own, outliers=outliers, now=now)
        except (PerftrendError, TypeError):
            continue
        if rows.size:
            found.append(TestbedAlert(alert, rule, rows))
    return found


def _without_experiments(query: Query) -> Query:
    """Return a query without the traces of experiments, unless it has a condition on them."""
    if _EXPERIMENT in query.by_key:
        return query
    any_name = Term(_EXPERIMENT, "", negated=True, pattern=True, optional=True)
    return Query((*query.terms, any_name))


def look(
    store: Store,
    axis: Axis,
    traces: Sequence[StoredTrace],
    watches: Sequence[TestbedAlert],
    *,
    now: datetime,
    give_way: Callable[[], object],
) -> ScanResult:
    """Search the traces of a testbed for changes and missing data.

    :param traces: all traces of the testbed, in the order that the rows of the watches refer to.
    :param give_way: called between two traces.
    """
    wanted = np.unique(np.concatenate([watch.rows for watch in watches]))
    longest = max(watch.rule.detector.history for watch in watches)
    found: list[tuple[int, Finding]] = []
    optional = {trace.hash for trace in traces if trace.key.is_optional}
    is_watched = np.zeros((len(watches), len(traces)), dtype=np.bool_)
    for watched, watch in zip(is_watched, watches, strict=True):
        watched[watch.rows] = True
    silences: dict[int, dict[str, MeasuredCommit]] = defaultdict(dict)
    changes: dict[int, dict[str, MeasuredCommit]] = defaultdict(dict)
    measured: dict[int, NDArray[np.bool_]] = {}
    jobs_at: dict[int, tuple[frozenset[str], ...]] = {}
    places: tuple[MeasuredCommit, ...] = ()
    judge = FindingJudge.of(store, axis, traces, last=longest)
    for start in range(0, len(wanted), _AT_ONCE):
        rows = wanted[start : start + _AT_ONCE]
        chosen = [traces[row] for row in rows]
        history = history_of(store, axis, chosen, last=longest)
        places = history.places
        by_hash = {trace.hash: trace for trace in chosen}
        for watched, watch in zip(is_watched, watches, strict=True):
            own = part(history, np.flatnonzero(watched[rows]), watch.rule.detector.history)
            number = watch.alert.identity
            found += [
                (number, judged)
                for finding in watch.rule.find(own, between=give_way)
                if not (finding.kind is FindingKind.SILENCE and finding.trace in optional)
                and (judged := judge.judge(finding, by_hash[finding.trace], history))
            ]
            has_value = measured.setdefault(number, np.zeros(own.values.shape[1], dtype=np.bool_))
            has_value |= np.isfinite(own.values).any(axis=0)
            jobs_at[number] = own.jobs
            reached = own.reach()
            silences[number].update(reached.silences)
            changes[number].update(reached.changes)
    jobs = {number: find_measuring_jobs(each, jobs_at[number]) for number, each in measured.items()}
    expected = _find_deadlines(store, axis, watches, jobs)
    found += [
        (number, _make_stopped_finding(axis, ended, end))
        for number, (ended, end) in expected.items()
        if end < now
    ]
    return ScanResult(
        traces={traces[row].hash: traces[row] for row in wanted},
        places=places,
        found=found,
        reach={number: Reach(silences[number], changes[number]) for number in silences},
        watches={watch.alert.identity: watch for watch in watches},
        stopped=any(watch.alert.rules.silent_hours for watch in watches),
        silent_from=min((end for _, end in expected.values() if end >= now), default=None),
    )


def history_of(store: Store, axis: Axis, traces: Sequence[StoredTrace], *, last: int) -> TraceHistory:
    """Read the values of traces over the newest commits of a testbed."""
    columns = range(max(len(axis.columns) - last, 0), len(axis.columns))
    chosen = axis.columns[columns.start :]
    jobs = store.alerts.jobs([run for column in chosen for run in column.runs])
    return TraceHistory(
        traces=tuple(trace.hash for trace in traces),
        better=tuple(trace.better for trace in traces),
        values=store.tiles.values(axis, [trace.trace_id for trace in traces], columns),
        places=tuple(MeasuredCommit(column.started, column.revision) for column in chosen),
        jobs=tuple(frozenset(jobs[run] for run in column.runs if run in jobs) for column in chosen),
    )


@dataclass(frozen=True, slots=True, eq=False)
class FindingJudge:
    """Decides what regressions are: of the product, of the testbed, or cycles that have only moved."""

    store: Store
    axis: Axis
    last: int
    """Number of the newest commits that are read."""
    reference: ReferenceTrends
    parts: Mapping[TestName, Mapping[str, StoredTrace]]
    """The traces of the cycles of each test, by part of the device."""

    @classmethod
    def of(cls, store: Store, axis: Axis, traces: Sequence[StoredTrace], *, last: int) -> FindingJudge:
        """Read the traces of the reference build over the newest commits.

        :param traces: all traces of the testbed.
        """
        kinds: dict[tuple[str, Better], list[StoredTrace]] = defaultdict(list)
        parts: dict[TestName, dict[str, StoredTrace]] = defaultdict(dict)
        for trace in traces:
            if trace.key.experiment == REFERENCE:
                kinds[trace.unit, trace.better].append(trace)
            if part := part_of(trace.key):
                parts[without_metric(trace.key)][part] = trace
        trends = {}
        for kind, own in kinds.items():
            history = history_of(store, axis, own, last=last)
            moments = [place.moment for place in history.places]
            values = history.values.T.copy()
            measured = np.flatnonzero(np.isfinite(values).any(axis=1))
            newest = history.places[measured[-1]].revision if measured.size else ""
            # A reference build that was replaced cannot be compared with its successor.
            values[[place.revision != newest for place in history.places]] = np.nan
            is_lower = kind[1] is Better.LOWER
            trends[kind] = ReferenceTrend.of(moments, values, lower_is_better=is_lower)
        return cls(store, axis, last, trends, parts)

    def judge(self, finding: Finding, trace: StoredTrace, history: TraceHistory) -> Finding | None:
        """Return a finding, as one of the testbed if the reference build says so; None if it is no change."""
        if finding.kind in CHANGES and self._has_moved(finding, trace):
            return None
        trend = self.reference.get((trace.unit, trace.better))
        if finding.kind is not FindingKind.REGRESSION or trend is None:
            return finding
        moments = [place.moment for place in history.places]
        values = history.values[history.traces.index(trace.hash)]
        judged = trend.judge(moments, values, *_ends(finding), better=trace.better)
        span = finding.range
        is_testbed = judged is not None and judged.blame is Blame.TESTBED
        if trace.key.experiment == REFERENCE:
            # Unless it was replaced, nothing but the testbed can have changed it.
            is_testbed = span.last_good.revision == span.first_changed.revision
        return replace(finding, kind=FindingKind.TESTBED) if is_testbed else finding

    def _has_moved(self, finding: Finding, trace: StoredTrace) -> bool:
        own = part_of(trace.key)
        parts = self.parts[without_metric(trace.key)] if own else {}
        if len(parts) <= 1:
            return False
        history = history_of(self.store, self.axis, list(parts.values()), last=self.last)
        cycles = dict(zip(parts, history.values, strict=True))
        moments = [place.moment for place in history.places]
        return CycleHistory.of(moments, cycles).has_moved(own, *_ends(finding))


def _ends(finding: Finding) -> tuple[datetime, datetime]:
    return finding.range.last_good.moment, finding.range.first_changed.moment


def part(history: TraceHistory, rows: NDArray[np.intp], last: int) -> TraceHistory:
    """Return some traces of a history over its newest commits."""
    first = max(len(history.places) - last, 0)
    return TraceHistory(
        traces=tuple(history.traces[row] for row in rows),
        better=tuple(history.better[row] for row in rows),
        values=history.values[rows, first:],
        places=history.places[first:],
        jobs=history.jobs[first:],
    )


def _find_deadlines(
    store: Store, axis: Axis, watches: Sequence[TestbedAlert], jobs: Mapping[int, frozenset[str]]
) -> dict[int, tuple[datetime, datetime]]:
    """Return the end of the newest run, and the time until which the next is expected, for each alert.

    Alerts that do not expect runs are left out.

    :param jobs: the jobs that measure the traces of each alert, so that a job that has stopped is reported
        although others continue. If none is known, all runs on the testbed count.
    """
    alerts = [watch.alert for watch in watches if watch.alert.rules.silent_hours]
    newest = store.alerts.newest(axis.testbed) if alerts else {}
    expected = {}
    for alert in alerts:
        ended = [newest[job] for job in jobs[alert.identity] if job in newest] or list(newest.values())
        if ended:
            wait = timedelta(hours=alert.rules.silent_hours)
            expected[alert.identity] = (max(ended), max(ended) + wait)
    return expected


def _make_stopped_finding(axis: Axis, ended: datetime, end: datetime) -> Finding:
    """Return the finding of a testbed without a run until the end of the wait."""
    newest = next((each for each in reversed(axis.columns) if each.started <= ended), axis.columns[0])
    # A run whose clock was wrong may have ended before it began.
    late = max(ended, newest.started) + (end - ended)
    span = SuspectRange(MeasuredCommit(newest.started, newest.revision), MeasuredCommit(late))
    return Finding(FindingKind.STOPPED, "", span, span)
