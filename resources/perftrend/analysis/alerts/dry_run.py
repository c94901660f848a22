"""Dry run of an alert, night by night: to choose a threshold before the alert is active.

Each night uses only the measurements up to then, and the state of the nights before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from perftrend.analysis.alerts.detectors import Detector
from perftrend.analysis.alerts.findings import (
    Finding,
    FindingKind,
    FindingMatches,
    KnownFinding,
    MeasuredCommit,
    SuspectRange,
    Threshold,
    common_range,
    match_findings,
)
from perftrend.analysis.alerts.history import TraceHistory, findings_of, silences_of

Between: TypeAlias = Callable[[], object]
"""A callback that lets other work run between two traces: each trace needs a millisecond."""


def _do_nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """The parameters of a dry run."""

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
    rehearsal: DryRunResult, history: TraceHistory, *, nights: int, between: Between = _do_nothing
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
            tuple(rehearsal.find(now, between=between)),
            is_new=partial(rehearsal.is_news, places=now.places),
            was_looked_at=now.reach().has,
        )
        yield _report_night(now.places[-1], night, memory)
        _remember(night, memory)


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
