"""Rows of runs and results: conversion to classes of the model, current names, and validity.

A result stays under the trace that it was measured as. ``renamed_traces`` has a row for each trace of a
former name, and :mod:`perftrend.store.renames` fills it. Every query of the results of traces uses a
:class:`TraceNames`, so a rename takes effect wherever results are read.

A result enters a trend if the measurement is valid, and no user marked it as invalid. Every query that turns
results into values uses :data:`USABLE` or :data:`INVALID`. So a mark takes effect wherever values are read,
and the results themselves are not changed.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import Row
from sqlalchemy.engine import Connection

from perftrend.model import MARKED, Better, Result, Run, Status, TraceKey, finite
from perftrend.store.schema import invalidations, renamed_traces, results, traces

_Value = TypeVar("_Value")

_STATUS = {status.value: status for status in Status}


def pack_samples(samples: tuple[float, ...]) -> bytes:
    """Pack samples as little-endian float64, eight bytes each."""
    return struct.pack(f"<{len(samples)}d", *samples)


def unpack_samples(samples: bytes) -> tuple[float, ...]:
    """Undo :func:`pack_samples`."""
    return struct.unpack(f"<{len(samples) // 8}d", samples)


def row_of_run(run: Run) -> dict[str, Any]:
    """Return the columns of a run."""
    return {
        "job": run.job,
        "build": run.build,
        "testbed": run.testbed,
        "started": run.started,
        "finished": run.finished,
        "versions": dict(run.versions),
        "archive": run.archive,
        "simulated": run.simulated,
        "suites_started": run.suites_started,
        "suites_finished": run.suites_finished,
        "experiment": run.experiment,
        "environment": dict(run.environment),
    }


def run_of_row(row: Row[Any]) -> Run:
    """Return the run of a row that has all columns of ``runs``."""
    return Run(
        testbed=row.testbed,
        job=row.job,
        build=row.build,
        started=row.started,
        finished=row.finished,
        versions=row.versions,
        archive=row.archive,
        simulated=row.simulated,
        suites_started=row.suites_started,
        suites_finished=row.suites_finished,
        experiment=row.experiment,
        environment=row.environment,
    )


def row_of_result(result: Result) -> dict[str, Any]:
    """Return the columns of a result, except its run and its trace."""
    return {
        "status": result.status.value,
        "value": finite(result.value),
        "samples": pack_samples(result.samples),
        "invalid": result.invalid,
        "message": result.message,
    }


def details_columns(of_traces: Iterable[tuple[int, Mapping[str, Any]]]) -> Iterator[dict[str, Any]]:
    """Yield the columns of the details of a run's results, except the run; omit results without details.

    NDR and PDR of one search have the same details, and details are most of a store. So the second row has
    the id of the trace whose row has them. :func:`details_by_trace` resolves it.
    """
    first: dict[str, int] = {}
    for trace, details in of_traces:
        if details:
            # In Python, 1 equals True; in JSON, they differ.
            same = first.setdefault(json.dumps(dict(details)), trace)
            yield {"trace_id": trace, "details": dict(details) if same == trace else same}


def details_by_trace(
    rows: Iterable[tuple[int, Mapping[str, Any] | int | None]],
) -> dict[int, Mapping[str, Any]]:
    """Return the details of a run's results from the ids of their traces and their columns ``details``."""
    stored = dict(rows)
    resolved = {
        trace: stored.get(details) if isinstance(details, int) else details
        for trace, details in stored.items()
    }
    return {trace: details if isinstance(details, Mapping) else {} for trace, details in resolved.items()}


def result_of_columns(  # noqa: PLR0917 - called for every row, by the columns' order
    trace: tuple[TraceKey, str, Better],
    details: Mapping[str, Any],
    status: str,
    value: float | None,
    samples: bytes,
    invalid: str,
    message: str,
) -> Result:
    """Return the result of a trace: its details, and the columns of ``results`` from ``status`` on."""
    return Result(
        *trace,
        _STATUS[status],
        unpack_samples(samples),
        math.nan if value is None else value,
        invalid,
        message,
        details,
    )


class KeyReader:
    """A fast reader of the keys of many traces, which share the objects of equal parameters."""

    def __init__(self) -> None:
        self._shared: dict[tuple[str, str], tuple[str, str]] = {}

    def read(self, parameters: Sequence[str]) -> list[TraceKey]:
        """Return the keys of the column ``parameters``; its JSON is sorted, as keys are."""
        shared = self._shared.setdefault
        pairs = json.loads(f"[{','.join(parameters)}]", object_pairs_hook=tuple)
        return [TraceKey(tuple([shared(pair, pair) for pair in each])) for each in pairs]


def trace_of_row(row: Row[Any]) -> tuple[TraceKey, str, Better]:
    """Return the key, the unit and the better direction of a row that has the columns of ``traces``."""
    return TraceKey.of(**json.loads(row.parameters)), row.unit, Better(row.better)


IS_FORMER_TRACE = sa.exists().where(renamed_traces.c.trace_id == traces.c.id)
"""Whether a trace has a former name."""

# Checked before any other lookup: most results have the current name.
_IS_FORMER = results.c.trace_id.in_(sa.select(renamed_traces.c.trace_id))


def _current_id() -> sa.ColumnElement[int]:
    renamed = renamed_traces.alias()
    query = sa.select(renamed.c.current_id).where(renamed.c.trace_id == results.c.trace_id)
    return sa.case((_IS_FORMER, query.correlate(results).scalar_subquery()), else_=results.c.trace_id)


def _is_replaced() -> sa.ColumnElement[bool]:
    """Return the condition that the run also has a result under a newer name, which counts instead."""
    mine, others, newer = renamed_traces.alias(), renamed_traces.alias(), results.alias()
    in_run = newer.c.run_id == results.c.run_id
    is_newer = (others.c.steps < mine.c.steps) | (
        (others.c.steps == mine.c.steps) & (others.c.trace_id < mine.c.trace_id)
    )
    of_current = sa.exists().where(in_run, newer.c.trace_id == mine.c.current_id)
    of_newer = sa.exists().where(
        in_run, newer.c.trace_id == others.c.trace_id, others.c.current_id == mine.c.current_id, is_newer
    )
    return _IS_FORMER & (
        sa.exists()
        .where(
            mine.c.trace_id == results.c.trace_id,
            of_current.correlate(results, mine) | of_newer.correlate(results, mine),
        )
        .correlate(results)
    )


_CURRENT_ID = _current_id()
_IS_REPLACED = _is_replaced()


@dataclass(frozen=True, slots=True)
class TraceNames:
    """The traces of former names, and their current traces."""

    current: Mapping[int, int]
    """From the id of a trace with a former name to that of the trace with the current name."""

    @property
    def trace_id(self) -> sa.Label[Any]:
        """The id of the trace that a result belongs to now."""
        return (_CURRENT_ID if self.current else results.c.trace_id).label("trace_id")

    @property
    def counts(self) -> sa.ColumnElement[bool]:
        """Whether a result counts: not if its run has one under a newer name of the trace."""
        return sa.not_(_IS_REPLACED) if self.current else sa.true()

    def with_former(self, ids: Iterable[int]) -> list[int]:
        """Return the ids of traces and of their former traces."""
        wanted = set(ids)
        return sorted(wanted.union(old for old, current in self.current.items() if current in wanted))


def parts(values: Sequence[_Value], size: int) -> Iterator[Sequence[_Value]]:
    """Yield values in parts of at most a size, because the number of values in a query is limited."""
    for start in range(0, len(values), size):
        yield values[start : start + size]


def names_of(connection: Connection) -> TraceNames:
    """Return the names as a transaction sees them; most stores have no former ones."""
    query = sa.select(renamed_traces.c.trace_id, renamed_traces.c.current_id)
    return TraceNames({row.trace_id: row.current_id for row in connection.execute(query)})


def current_hash(column: sa.ColumnElement[str]) -> sa.ColumnElement[str]:
    """Return the expression for the hash of the current trace, for a column that may have a former one."""
    former, current = traces.alias(), traces.alias()
    query = (
        sa.select(current.c.hash)
        .select_from(former)
        .join(renamed_traces, renamed_traces.c.trace_id == former.c.id)
        .join(current, current.c.id == renamed_traces.c.current_id)
        .where(former.c.hash == column)
    )
    return sa.func.coalesce(query.scalar_subquery(), column)


_MARKS = (invalidations.c.run_id == results.c.run_id) & (
    invalidations.c.trace_id.is_(None) | (invalidations.c.trace_id == results.c.trace_id)
)
_FIRST_MARK = (
    sa.select(MARKED + invalidations.c.author + ": " + invalidations.c.reason)
    .where(_MARKS)
    .order_by(invalidations.c.id)
    .limit(1)
    .correlate(results)
    .scalar_subquery()
)

INVALID = sa.func.coalesce(_FIRST_MARK, results.c.invalid).label("invalid")
"""Why a result cannot be trusted; empty if it can."""
USABLE = (
    (results.c.status == Status.PASS.value)
    & (results.c.invalid == "")
    & ~sa.exists().where(_MARKS).correlate(results)
)
"""Whether a result may enter a trend, if it has a value."""
