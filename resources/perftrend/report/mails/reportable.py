"""The changes in a mail that covers several runs: each change once.

The analysis of a run reports the changes that no earlier analysis reported. So a mail has the changes
of each run that it covers, as found by the analysis of that run; the newest change of a test is shown as
of the newest run.

A run may become known after later runs have been reported. Then the analyses of these are repeated with
it, and the changes that they reported without it are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Protocol

from perftrend.model import Outcome, Run, TraceKey, Verdict
from perftrend.report.mails.changes import reported_change
from perftrend.report.mails.record import MOST_RUNS, PendingRuns

_CHANGES = (Outcome.REGRESSION, Outcome.PROGRESSION)


class Evaluate(Protocol):
    """An analysis."""

    def __call__(self, run: Run, /, *, new_runs: int = 1, without: Collection[Run] = ()) -> Sequence[Verdict]:
        """Return the verdicts of a run.

        :param new_runs: the number of newest runs that no earlier analysis has included.
        :param without: runs to ignore.
        """


def reportable(evaluate: Evaluate, pending: PendingRuns) -> tuple[Verdict, ...]:
    """Return the verdicts for a mail.

    :param evaluate: the analysis.
    :param pending: at least one run; only the newest MOST_RUNS are covered.
    :returns: those of the newest pending run, with the changes of all.
    """
    pending = PendingRuns(pending.runs[-MOST_RUNS:], pending.later[-MOST_RUNS:])
    run = pending.runs[-1]
    verdicts = evaluate(run)
    covered = sorted((*pending.runs, *pending.later), key=lambda each: (each.started, each.build))
    if len(covered) == 1:
        return tuple(verdicts)
    found = [change for each in covered for change in _changes(evaluate(each))]
    newest = {change.series.key: change for change in _changes(evaluate(covered[-1], new_runs=len(covered)))}
    last = {change.series.key: index for index, change in enumerate(found)}
    for index in last.values():
        now = newest.get(found[index].series.key)
        if now and now.outcome is found[index].outcome:
            found[index] = now
    for each in pending.later:
        for reported in _changes(evaluate(each, without=pending.runs)):
            _remove(found, reported)
    return (*(verdict for verdict in verdicts if verdict.outcome not in _CHANGES), *found)


def _changes(verdicts: Iterable[Verdict]) -> list[Verdict]:
    return [verdict for verdict in verdicts if verdict.outcome in _CHANGES]


def _remove(found: list[Verdict], reported: Verdict) -> None:
    """Remove a reported change: the nearest one of its trace in the same direction, if there is one."""
    same = [index for index, change in enumerate(found) if _kind(change) == _kind(reported)]
    if same:
        del found[min(same, key=lambda index: abs(_began(found[index]) - _began(reported)))]


def _kind(verdict: Verdict) -> tuple[TraceKey, Outcome]:
    return verdict.series.key, verdict.outcome


def _began(verdict: Verdict) -> datetime:
    change = reported_change(verdict)
    return verdict.series.runs[change.position if change else -1].started
