"""The verdict of each run: how many of its results were normal, slower, failed and so on.

The analysis of a run stores it, so that pages show the verdict that the job printed instead of computing
another one. A later analysis of the same run replaces it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from perftrend.model import Better, Outcome, Run, Verdict
from perftrend.store import result_queries, rows
from perftrend.store.connection import alone, read_transaction, write_transaction
from perftrend.store.schema import run_verdicts, runs

MOST_DECLINES = 20
"""Number of the worst long-term changes that are stored of a run."""


@dataclass(frozen=True, slots=True)
class Decline:
    """A trace whose trend is worse than its best trend between three months and one week ago."""

    trace: str
    """The hash of the trace."""
    change: float
    """Relative long-term change: negative if the values have fallen."""


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The verdict of a run."""

    judged: datetime
    """When the run was analysed, UTC."""
    outcomes: Mapping[Outcome, int] = field(hash=False)
    """The number of results by outcome."""
    suspected: int = 0
    """The number of results whose trend may have changed; the next runs decide."""
    declines: tuple[Decline, ...] = ()
    """The worst long-term changes, the worst first, at most :data:`MOST_DECLINES`."""

    @classmethod
    def of(cls, verdicts: Sequence[Verdict], *, judged: datetime) -> Self:
        """Return the verdict of a run from those of its results."""
        return cls(
            judged,
            Counter(verdict.outcome for verdict in verdicts),
            sum(verdict.suspected is not None for verdict in verdicts),
            tuple(_declines(verdicts)),
        )


JudgedRun = tuple[Run, RunVerdict | None]
"""A run with its verdict; None: it was not analysed."""


class RunVerdicts:
    """The verdicts of a store's runs; safe for several processes at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def save(self, run: Run, verdict: RunVerdict) -> None:
        """Store the verdict of a run instead of an earlier one; nothing if the store does not have the run.

        :raises StoreError: if it cannot be written; the earlier one is retained then.
        """
        with write_transaction(self._engine) as connection:
            alone(connection, run.name)
            run_id = result_queries.find_run(connection, run)
            if run_id is None:
                return
            connection.execute(sa.delete(run_verdicts).where(run_verdicts.c.run_id == run_id))
            connection.execute(sa.insert(run_verdicts).values(run_id=run_id, **_columns(verdict)))

    def newest(self, testbed: str, *, last: int) -> list[JudgedRun]:
        """Return the newest runs of a testbed with their verdicts, the newest first."""
        query = sa.select(runs, run_verdicts).outerjoin(run_verdicts).where(runs.c.testbed == testbed)
        query = query.order_by(runs.c.started.desc(), runs.c.build.desc()).limit(last)
        with read_transaction(self._engine) as connection:
            return [(rows.run_of_row(row), _verdict_of(row)) for row in connection.execute(query)]

    def of_run(self, run: Run) -> RunVerdict | None:
        """Return the verdict of a run; None if it was not analysed."""
        with read_transaction(self._engine) as connection:
            run_id = result_queries.find_run(connection, run)
            row = connection.execute(sa.select(run_verdicts).where(run_verdicts.c.run_id == run_id)).first()
            return _verdict_of(row) if row else None


def _columns(verdict: RunVerdict) -> dict[str, Any]:
    return {
        "judged": verdict.judged,
        "outcomes": {outcome.value: number for outcome, number in verdict.outcomes.items()},
        "suspected": verdict.suspected,
        "declines": [[each.trace, each.change] for each in verdict.declines],
    }


def _verdict_of(row: sa.Row[tuple[Any, ...]]) -> RunVerdict | None:
    if row.judged is None:
        return None
    return RunVerdict(
        row.judged,
        {Outcome(name): number for name, number in row.outcomes.items()},
        row.suspected,
        tuple(Decline(trace, change) for trace, change in row.declines),
    )


def _declines(verdicts: Iterable[Verdict]) -> Iterable[Decline]:
    found = [
        (-each.long_term_change if each.series.better is Better.HIGHER else each.long_term_change, each)
        for each in verdicts
        if not _is_trend_suspected(each)
    ]
    worse = sorted(
        (pair for pair in found if pair[0] > 0), key=lambda pair: (-pair[0], pair[1].series.key.hash)
    )
    return (Decline(each.series.key.hash, each.long_term_change) for _, each in worse[:MOST_DECLINES])


def _is_trend_suspected(verdict: Verdict) -> bool:
    """Return whether the newest group may be outliers, so that its average is no trend yet."""
    step = verdict.suspected
    return step is not None and bool(verdict.groups) and step.position == verdict.groups[-1].start
