"""The report as JSON: everything that the page shows, at full precision.

``docs/report.rst`` documents the keys. JSON has no NaN, so a value that does not exist is null.
Runs are written once, under ``runs``, and referenced by their index there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from perftrend.analysis.families import SharedChange
from perftrend.analysis.reference import ReferenceFinding
from perftrend.model import Change, Result, Run, Series, Verdict, finite, revision_of
from perftrend.report.references import References
from perftrend.report.texts import WORST_FIRST, VerdictRow, passes, rows, sentence
from perftrend.settings import Settings
from perftrend.text import plain

FORMAT = "perftrend-report-1"
"""The first key of the document; the number is increased if a key changes its meaning."""

_WAY = ("loss_ratios", "trials", "phases")


@dataclass(frozen=True, slots=True)
class TrendReport:
    """The contents of a report."""

    verdicts: Sequence[Verdict]
    run: Run
    """The run that was analysed."""
    method: str
    """How changes were found, in words for readers."""
    window: int
    """Number of runs in the window of the moving statistics."""
    title: str = "Performance trend"
    notices: Sequence[str] = ()
    results: Sequence[Result] = ()
    """The results of the run with their details."""
    families: Sequence[SharedChange] = ()
    """Recent changes that many traces share."""
    settings: Settings | None = None
    """Addresses of Gerrit, Jenkins and the dashboard, and the words of requests; None: none of them."""

    @property
    def references(self) -> References:
        """The references of builds and changes."""
        return References(self.settings)

    @property
    def rows(self) -> list[VerdictRow]:
        """The table, worst first."""
        return rows(self.verdicts)


@dataclass(slots=True)
class RunTable:
    """Every run of every series, each once."""

    runs: list[Run] = field(default_factory=list)
    _index: dict[tuple[str, str, int, datetime], int] = field(default_factory=dict)

    def index(self, run: Run) -> int:
        """Return the index of a run in the table; add the run if it is new."""
        key = (run.testbed, run.job, run.build, run.started)
        if key not in self._index:
            self._index[key] = len(self.runs)
            self.runs.append(run)
        return self._index[key]


def as_json(
    verdicts: Sequence[Verdict],
    *,
    run: Run,
    method: str,
    window: int,
    title: str = "Performance trend",
    notices: Sequence[str] = (),
    results: Sequence[Result] = (),
    families: Sequence[SharedChange] = (),
    settings: Settings | None = None,
) -> str:
    """Return the report as one JSON document.

    :param verdicts: one for each trace, in any order.
    :param run: the run that was analysed.
    :param method: how changes were found, in words for readers.
    :param window: number of runs in the window of the moving statistics.
    :param title: heading.
    :param notices: lines that readers must see, such as that another testbed was used.
    :param results: the run's results with their details, which contain the steps of each search.
    :param families: recent changes that many traces share.
    :param settings: addresses of Gerrit, Jenkins and the dashboard, and the words of requests.
    :returns: JSON in ASCII, with a newline at the end.
    """
    return dumps(
        document(TrendReport(verdicts, run, method, window, title, notices, results, families, settings))
    )


def dumps(data: object) -> str:
    """Return compact JSON; NaN is a defect, because other programs could not read it."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")) + "\n"


def document(report: TrendReport) -> dict[str, Any]:
    """Return everything that the page shows, ready for JSON."""
    table = RunTable()
    details = {result.key.hash: result.details for result in report.results}
    tests = [
        _test(row, table, report.references) | _measured(details.get(row.verdict.series.key.hash, {}))
        for row in report.rows
    ]
    return {
        "format": FORMAT,
        "title": plain(report.title),
        "sentence": sentence(report.verdicts),
        "passed": passes(report.verdicts),
        "counts": _counts(report.verdicts),
        "run": run_entry(report.run),
        "method": plain(report.method),
        "window": report.window,
        "notices": [plain(notice) for notice in report.notices],
        "families": [_family(each, table) for each in report.families],
        "tests": tests,
        "runs": [run_entry(run) for run in table.runs],
    }


def run_entry(run: Run) -> dict[str, Any]:
    """Return a run, ready for JSON; times in UTC."""
    return {
        "name": plain(run.name),
        "testbed": plain(run.testbed),
        "job": plain(run.job),
        "build": run.build,
        "commit": plain(revision_of(run.versions)) or None,
        "started": run.started.astimezone(UTC).isoformat(),
        "finished": run.finished.astimezone(UTC).isoformat(),
        "versions": {plain(name): plain(version) for name, version in run.versions.items()},
        "archive": plain(run.archive),
        "simulated": run.simulated,
    }


def _family(change: SharedChange, table: RunTable) -> dict[str, Any]:
    return {
        "parameters": {plain(name): plain(value) for name, value in change.parameters},
        "traces": [key.hash for key in change.traces],
        "last_good": table.index(change.last_good),
        "first_changed": table.index(change.first_changed),
        "change": change.change,
        "low": change.low,
        "high": change.high,
        "new": change.is_new,
        "reference": _reference(change.reference),
    }


def _reference(found: ReferenceFinding | None) -> dict[str, Any] | None:
    if found is None:
        return None
    low, high = found.shift.interval
    return {"low": low, "high": high, "cause": str(found.blame)}


def history(verdict: Verdict, table: RunTable, *, number: Callable[[float], float | None]) -> dict[str, Any]:
    """Return the data of a test's graph, ready for JSON.

    :param table: receives the runs that are new to it.
    :param number: converts a value: None for NaN, and rounded or not.
    """
    series, runs = verdict.series, len(verdict.series.runs)
    return {
        "runs": [table.index(run) for run in series.runs],
        "values": [number(value) for value in series.samples.tolist()],
        "not_valid": not_valid(series, number=number),
        "moving_median": [number(value) for value in of_length(verdict.moving_median, runs)],
        "trimmed_average": [number(value) for value in of_length(verdict.trimmed_average, runs)],
        "trimmed_deviation": [number(value) for value in of_length(verdict.trimmed_deviation, runs)],
        "outliers": np.flatnonzero(verdict.outliers).tolist(),
        "groups": [
            {
                "start": int(group.start),
                "stop": int(group.stop),
                "mean": number(group.mean),
                "stdev": number(group.stdev),
                "bits": number(group.bits),
            }
            for group in verdict.groups
        ],
        "changes": [change_entry(change, number=number) for change in verdict.changes],
        "suspected_runs": suspected_runs(verdict),
    }


def suspected_runs(verdict: Verdict) -> list[int]:
    """Return the positions that a graph marks: single bad runs, and an undecided newest one."""
    newest = [verdict.suspected] if verdict.suspected else []
    return sorted({int(change.position) for change in (*verdict.bad_runs, *newest)})


def change_entry(change: Change, *, number: Callable[[float], float | None]) -> dict[str, Any]:
    """Return a change with its details, ready for JSON."""
    return {
        "position": int(change.position),
        "before": number(change.before),
        "after": number(change.after),
        "relative": number(change.relative),
        "direction": str(change.direction),
        "pattern": change.pattern or None,
        "drift": change.drift,
        "confidence": number(change.confidence),
        "effect_size": number(change.effect_size),
        "last_before": change.last_before,
        "first_after": change.first_after,
    }


def of_length(values: ArrayLike, length: int) -> list[float]:
    """Return the values of a statistic, NaN if it is not finite or was not calculated."""
    array = np.asarray(values, dtype=np.float64)
    return (
        np.where(np.isfinite(array), array, np.nan).tolist() if array.size == length else [math.nan] * length
    )


def not_valid(series: Series, *, number: Callable[[float], float | None]) -> list[dict[str, Any]]:
    """Return the measured values that are excluded from the trend, each with its reason."""
    return [
        {"position": position, "value": number(result.value), "reason": plain(result.invalid)}
        for position, result in enumerate(series.results)
        if result.invalid
    ]


def _test(row: VerdictRow, table: RunTable, references: References) -> dict[str, Any]:
    verdict = row.verdict
    parameters = verdict.series.key.as_dict()
    changes = [
        change_entry(change, number=finite) | _next_steps(change, verdict, references)
        for change in verdict.changes
    ]
    return {
        "id": verdict.series.key.hash,
        "parameters": {plain(name): plain(value) for name, value in parameters.items()},
        "unit": plain(verdict.series.unit),
        "better": str(verdict.series.better),
        "outcome": str(verdict.outcome),
        "reason": row.reason,
        "trend": finite(verdict.trend),
        "trend_runs": int(verdict.runs),
        "long_term_change": finite(verdict.long_term_change),
        **history(verdict, table, number=finite),
        "changes": changes,
        "vanished": [change_entry(change, number=finite) for change in verdict.vanished],
        "suspected": change_entry(verdict.suspected, number=finite) if verdict.suspected else None,
        "owners": [plain(owner) for owner in verdict.owners],
        "mail": [plain(address) for address in verdict.mail],
    }


def _next_steps(change: Change, verdict: Verdict, references: References) -> dict[str, Any]:
    """Return how to bisect a change, its pages on the dashboard, and what else differs; None: not known."""
    found = references.change(change, verdict)
    return {
        "bisect": found.bisection.model_dump() if found.bisection else None,
        "plot": found.plot or None,
        "item": found.item or None,
        "environment": [
            {"name": plain(each.name), "before": plain(each.before), "after": plain(each.after)}
            for each in found.environment
        ],
    }


def _measured(details: Mapping[str, Any]) -> dict[str, Any]:
    """Return the steps of a search and its latencies as in the test's message; None if missing."""
    search = {name: details.get(name) for name in _WAY} if details.get("phases") else None
    return {"search": search, "latency": details.get("latency") or None}


def _counts(verdicts: Sequence[Verdict]) -> dict[str, int]:
    outcomes = [verdict.outcome for verdict in verdicts]
    return {str(outcome): outcomes.count(outcome) for outcome in WORST_FIRST}
