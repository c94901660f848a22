"""Runs and results that a user marked as invalid, with reason, author and time.

A mark applies to a whole run or to one of its results. While it exists, the results are excluded from trends,
tiles, alerts and mails like other invalid results (:mod:`perftrend.store.rows`). The measurement itself is
not changed, so a mark can be removed. The tiles of the run's column are rebuilt in the same transaction. The
activity log records each mark and its removal with the user.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Row
from sqlalchemy.engine import Connection, Engine

from perftrend.errors import UsageError
from perftrend.model import Run, TraceKey
from perftrend.store import result_queries
from perftrend.store.activity import record
from perftrend.store.connection import alone, read_transaction, write_transaction
from perftrend.store.rows import run_of_row
from perftrend.store.schema import invalidations, renamed_traces, results, runs, trace_params, traces
from perftrend.store.tiles.writer import refresh

LONGEST_REASON = 1000
"""Characters."""


@dataclass(frozen=True, slots=True)
class Invalidation:
    """A mark of a run or of one of its results."""

    run: Run
    key: TraceKey | None
    """The trace of the result; None if the whole run is invalid."""
    reason: str
    author: str
    moment: datetime


class Invalidations:
    """The marks of a store; safe for several processes at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def of_testbed(self, testbed: str) -> list[Invalidation]:
        """Return the marks of a testbed's runs, the oldest first."""
        query = (
            sa.select(runs, traces.c.parameters, invalidations.c.reason, invalidations.c.author)
            .add_columns(invalidations.c.moment)
            .select_from(invalidations)
            .join(runs)
            .outerjoin(renamed_traces, renamed_traces.c.trace_id == invalidations.c.trace_id)
            .outerjoin(
                traces, traces.c.id == sa.func.coalesce(renamed_traces.c.current_id, invalidations.c.trace_id)
            )
            .where(runs.c.testbed == testbed)
            .order_by(invalidations.c.id)
        )
        with read_transaction(self._engine) as connection:
            return [
                Invalidation(
                    run_of_row(row),
                    TraceKey.of(**json.loads(row.parameters)) if row.parameters else None,
                    row.reason,
                    row.author,
                    row.moment,
                )
                for row in connection.execute(query)
            ]

    def add(self, run: Run, reason: str, *, author: str, test: str = "", trace: str = "") -> None:
        """Mark a run as invalid, or those of its results that are selected.

        :param test: only the results of this test.
        :param trace: only the result of the trace with this hash.
        :raises UsageError: if the reason is empty or too long, if the store has no such run or result, or if
            it is marked already; nothing is changed.
        """
        reason = validate_reason(reason)
        with write_transaction(self._engine) as connection:
            run_id, selected = _select(connection, run, test, trace)
            marked = {row.trace_id for row in _marks(connection, run_id, selected)}
            added = [trace_id for trace_id in selected if trace_id not in marked]
            subject = subject_of(run, test, trace)
            if not added:
                raise UsageError(f"{subject} is already marked as invalid")
            row = {"run_id": run_id, "reason": reason, "author": author, "moment": datetime.now(UTC)}
            connection.execute(sa.insert(invalidations), [{**row, "trace_id": each} for each in added])
            record(connection, author, "invalidated", subject, reason)
            refresh(connection, run.testbed, run_id)

    def remove(self, run: Run, *, author: str, test: str = "", trace: str = "") -> None:
        """Remove the mark of a run, or those of the selected results; arguments as for :meth:`add`.

        Marks of single results stay if that of their run is removed, and the other way round.

        :raises UsageError: if the store has no such run or result, or if it is not marked.
        """
        with write_transaction(self._engine) as connection:
            run_id, selected = _select(connection, run, test, trace)
            found = _marks(connection, run_id, selected)
            subject = subject_of(run, test, trace)
            if not found:
                raise UsageError(f"{subject} is not marked as invalid")
            removed = invalidations.c.id.in_([row.id for row in found])
            connection.execute(sa.delete(invalidations).where(removed))
            record(connection, author, "restored", subject, f"was invalid: {found[0].reason}")
            refresh(connection, run.testbed, run_id)


def validate_reason(text: str) -> str:
    """Return a reason as one line.

    :raises UsageError: if it is empty or too long.
    """
    reason = " ".join(text.replace("\x00", "").split())
    if not reason:
        raise UsageError("the reason is empty; write why the values cannot be trusted")
    if len(reason) > LONGEST_REASON:
        raise UsageError(f"the reason has {len(reason)} characters; write at most {LONGEST_REASON}")
    return reason


def _select(connection: Connection, run: Run, test: str, trace: str) -> tuple[int, Sequence[int | None]]:
    """Return the id of a run, and those of the selected traces; [None] for the whole run."""
    # Otherwise two concurrent calls would both add a row for the same mark.
    alone(connection, run.name)
    run_id = result_queries.find_run(connection, run)
    if run_id is None:
        raise UsageError(f"the store has no run {run.name} on {run.testbed}")
    if not test and not trace:
        return run_id, [None]
    of_run = results.c.run_id == run_id
    query = sa.select(results.c.trace_id).where(of_run).order_by(results.c.trace_id)
    if test:
        named = sa.select(trace_params.c.trace_id).where(trace_params.c.name == "test")
        query = query.where(_among(named.where(trace_params.c.value == test)))
    if trace:
        query = query.where(_among(sa.select(traces.c.id).where(traces.c.hash == trace)))
    selected = connection.execute(query).scalars().all()
    if not selected:
        raise UsageError(f"run {run.name} has no result of {_selection(test, trace)}")
    return run_id, selected


def _among(named: sa.Select[tuple[int]]) -> sa.ColumnElement[bool]:
    """Return the condition that a result is of one of these traces, under any of their names."""
    former = sa.select(renamed_traces.c.trace_id).where(renamed_traces.c.current_id.in_(named))
    current = sa.select(renamed_traces.c.current_id).where(renamed_traces.c.trace_id.in_(named))
    return results.c.trace_id.in_(named) | results.c.trace_id.in_(former) | results.c.trace_id.in_(current)


def _marks(connection: Connection, run_id: int, selected: Sequence[int | None]) -> Sequence[Row[Any]]:
    column = invalidations.c.trace_id
    of_traces = column.is_(None) if None in selected else column.in_(selected)
    query = sa.select(invalidations).where(invalidations.c.run_id == run_id, of_traces)
    return connection.execute(query.order_by(invalidations.c.id)).all()


def subject_of(run: Run, test: str, trace: str) -> str:
    """Return the name of a run or of its results in the activity log."""
    selection = _selection(test, trace)
    return f"run {run.name}, {selection}" if selection else f"run {run.name}"


def _selection(test: str, trace: str) -> str:
    return ", ".join([*([f"test {test}"] if test else []), *([f"trace {trace}"] if trace else [])])
