"""Queries for runs, results, samples and series.

A series consists of many small rows (a thousand traces over half a year are 180,000), so they are
fetched for many runs at once, in the order of runs, and grouped here.

Jenkins counts from 1 again if a job is deleted and created again, restored or moved. So the build number does
not identify a run, but the time at which its suites ran does. Two outputs of one run may contain slightly
different times, because one has those of the suites and the other those of the tests. These times overlap.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import sqlalchemy as sa
from sqlalchemy import Row
from sqlalchemy.engine import Connection, Engine

from perftrend.model import Better, Result, Run, Series, TraceKey
from perftrend.store import rows
from perftrend.store.connection import read_transaction
from perftrend.store.rows import INVALID, IS_FORMER_TRACE, USABLE, TraceNames, names_of, parts, unpack_samples
from perftrend.store.schema import details, results, runs, trace_params, traces

_COLUMNS = (results.c.status, results.c.value, results.c.samples, INVALID, results.c.message)
_RUNS_AT_ONCE = 200
"""Earlier runs that one query searches for results that traces still lack."""
_MOST_NAMED = 10_000
"""Values in one condition of a query: SQLite accepts 32,766, PostgreSQL 65,535."""
_JOB_RUNS = 2
"""The newest runs of a job that determine its traces: the evaluated one, and the one before."""

_AT_ONCE = 500


def runs_of(
    connection: Connection, testbed: str, *, last: int | None = None, until: Run | None = None
) -> dict[int, Run]:
    """Return the runs of a testbed by id, in the order of time."""
    query = sa.select(runs).where(runs.c.testbed == testbed)
    if until is not None:
        query = query.where(
            (runs.c.started < until.started)
            | ((runs.c.started == until.started) & (runs.c.build <= until.build))
        )
    query = query.order_by(runs.c.started.desc(), runs.c.build.desc(), runs.c.id.desc()).limit(last)
    return {row.id: rows.run_of_row(row) for row in reversed(connection.execute(query).all())}


def runs_of_number(connection: Connection, run: Run) -> Sequence[Row[tuple[object, ...]]]:
    """Return the runs with the job, the build number and the testbed of a run, in the order of time."""
    query = sa.select(runs).where(
        runs.c.job == run.job, runs.c.build == run.build, runs.c.testbed == run.testbed
    )
    return connection.execute(query.order_by(runs.c.started, runs.c.id)).all()


def find_replaced_runs(connection: Connection, testbed: str) -> Sequence[Row[tuple[object, ...]]]:
    """Return the runs of a testbed whose build numbers were reused by later runs of their jobs."""
    later = runs.alias()
    same = (later.c.job == runs.c.job) & (later.c.build == runs.c.build) & (later.c.testbed == runs.c.testbed)
    query = sa.select(runs).where(
        runs.c.testbed == testbed, sa.exists().where(same, later.c.started > runs.c.started)
    )
    return connection.execute(query).all()


def find_run(connection: Connection, run: Run) -> int | None:
    """Return the id of a run; None if the store does not have it.

    The stored run may come from another source, with another start time.
    """
    same = [row.id for row in runs_of_number(connection, run) if _is_same_moment(row, run)]
    return same[-1] if same else None


def find_execution(connection: Connection, run: Run, by_hash: Mapping[str, Result]) -> int | None:
    """Return the id of the run that is the same execution; None if the store does not have it.

    If a stored run is found by its samples, the times of the suites are stored with it.
    """
    for row in runs_of_number(connection, run):
        if _is_same_moment(row, run):
            return int(row.id)
        timed = row.suites_started is not None and run.suites_started is not None
        if not timed and _has_samples(connection, row.id, by_hash):
            if run.suites_started is not None:
                times = {"suites_started": run.suites_started, "suites_finished": run.suites_finished}
                connection.execute(sa.update(runs).where(runs.c.id == row.id).values(**times))
            return int(row.id)
    return None


def _is_same_moment(row: Row[tuple[object, ...]], run: Run) -> bool:
    if row.started == run.started:
        return True
    if row.suites_started is None or run.suites_started is None:
        return False
    row_end = row.suites_finished or row.suites_started
    run_end = run.suites_finished or run.suites_started
    return bool(row.suites_started <= run_end and run.suites_started <= row_end)


def _has_samples(connection: Connection, run_id: int, by_hash: Mapping[str, Result]) -> bool:
    """Return whether a run has exactly these samples, and at least one."""
    query = sa.select(traces.c.hash, results.c.samples).join(traces)
    entered = connection.execute(query.where(results.c.run_id == run_id))
    stored = {name: samples for name, samples in entered if samples}
    return bool(stored) and stored == {
        name: rows.pack_samples(result.samples) for name, result in by_hash.items() if result.samples
    }


def results_of(connection: Connection, run_id: int | None) -> list[Result]:
    """Return the results of a run with their details, under current names, in the order of the traces."""
    names = names_of(connection)
    query = (
        sa.select(traces, results.c.trace_id, names.counts.label("counts"), details.c.details, *_COLUMNS)
        .select_from(results.join(traces, traces.c.id == names.trace_id.element))
        .outerjoin(details, is_same_result())
        .where(results.c.run_id == run_id)
        .order_by(results.c.trace_id)
    )
    found = connection.execute(query).all()
    # Details may refer to those of a result that does not count.
    of_traces = rows.details_by_trace((row.trace_id, row.details) for row in found)
    return [
        rows.result_of_columns(rows.trace_of_row(row), of_traces[row.trace_id], *row[-5:])
        for row in found
        if row.counts
    ]


def is_same_result() -> sa.ColumnElement[bool]:
    """Return the condition that joins the details of a result with it."""
    return (details.c.run_id == results.c.run_id) & (details.c.trace_id == results.c.trace_id)


def series_of(
    connection: Connection,
    testbed: str,
    *,
    last: int | None,
    until: Run | None,
    where: Mapping[str, str],
    keys: Collection[TraceKey] | None,
) -> list[Series]:
    """Return the traces of a testbed, in the order of their keys; see :meth:`Store.series`."""
    every_run = runs_of(connection, testbed, until=until)
    names = names_of(connection)
    history = _SeriesHistory(connection, names, every_run, where, last)
    ids = list(every_run)[::-1]
    if keys is None:
        newest = len(ids) if last is None else last
        history.read_newest(ids[:newest])
        if until is not None:
            same = (until.job, until.experiment)
            of_job = [run_id for run_id, run in every_run.items() if (run.job, run.experiment) == same]
            of_job = of_job[-_JOB_RUNS:]
            query = sa.select(names.trace_id).where(results.c.run_id.in_(of_job)).distinct()
            history.add_traces(connection.execute(query).scalars())
    else:
        newest = 0
        history.add_traces(_ids_of(connection, names, keys))
    for some in parts(ids[newest:], _RUNS_AT_ONCE):
        history.read_earlier(some)
    return sorted(history.series(), key=lambda series: series.key.parameters)


class _SeriesHistory:
    """Traces, each with its own newest runs up to a limit.

    The last runs of a weekly test, or of one that recent runs did not include, are far back.
    """

    def __init__(
        self,
        connection: Connection,
        names: TraceNames,
        every_run: Mapping[int, Run],
        where: Mapping[str, str],
        last: int | None,
    ) -> None:
        self._connection = connection
        self._names = names
        self._runs = every_run
        self._positions = {run_id: position for position, run_id in enumerate(every_run)}
        self._where = where
        self._last = last
        self._described: dict[int, tuple[TraceKey, str, Better]] = {}
        self._found: dict[int, list[tuple[int, Result]]] = {}

    def read_newest(self, run_ids: Sequence[int]) -> None:
        """Add all results of these runs, which are not more than the limit of a trace."""
        entries = self._connection.execute(self._query(run_ids)).all()
        self.add_traces(row.trace_id for row in entries)
        for run_id, trace_id, *columns in entries:
            if trace_id in self._found:
                self._add_result(trace_id, run_id, columns)

    def read_earlier(self, run_ids: Sequence[int]) -> None:
        """Add the results that traces lack from runs that are older than all that were read."""
        short = [trace for trace, entries in self._found.items() if len(entries) != self._last]
        if not short:
            return
        query = self._query(run_ids)
        if len(short) <= _MOST_NAMED:
            query = query.where(results.c.trace_id.in_(self._names.with_former(short)))
        newest_first = sorted(self._connection.execute(query), key=lambda row: -self._positions[row.run_id])
        for run_id, trace_id, *columns in newest_first:
            if trace_id in self._found and len(self._found[trace_id]) != self._last:
                self._add_result(trace_id, run_id, columns)

    def add_traces(self, trace_ids: Iterable[int]) -> None:
        """Include these traces, too, as far as they have the parameters."""
        new = sorted(set(trace_ids) - self._found.keys())
        self._described |= _read_traces(self._connection, self._where, new)
        self._found |= {trace_id: [] for trace_id in new if trace_id in self._described}

    def series(self) -> Iterator[Series]:
        """Yield the series of each trace that was ever tried."""
        for trace_id, entries in self._found.items():
            if not entries:
                continue
            entries.sort(key=lambda entry: self._positions[entry[0]])
            of_trace = tuple(self._runs[run_id] for run_id, _ in entries)
            tried = tuple(result for _, result in entries)
            samples = np.array([result.value if result.usable else math.nan for result in tried])
            yield Series(*self._described[trace_id], of_trace, samples, tried)

    def _query(self, run_ids: Sequence[int]) -> sa.Select[Any]:
        query = sa.select(results.c.run_id, self._names.trace_id, *_COLUMNS)
        return query.where(results.c.run_id.in_(run_ids), self._names.counts)

    def _add_result(self, trace_id: int, run_id: int, columns: Sequence[Any]) -> None:
        result = rows.result_of_columns(self._described[trace_id], {}, *columns)
        self._found[trace_id].append((run_id, result))


def _read_traces(
    connection: Connection, where: Mapping[str, str], ids: Sequence[int]
) -> dict[int, tuple[TraceKey, str, Better]]:
    """Return the key, the unit and the better direction of those traces that have these parameters, by id.

    Traces of former names are excluded.
    """
    known = sa.select(traces).where(~IS_FORMER_TRACE)
    for name, value in where.items():
        matching = sa.select(trace_params.c.trace_id).where(
            trace_params.c.name == name, trace_params.c.value == value
        )
        known = known.where(traces.c.id.in_(matching))
    return {
        row.id: rows.trace_of_row(row)
        for some in parts(ids, _MOST_NAMED)
        for row in connection.execute(known.where(traces.c.id.in_(some)))
    }


def _ids_of(connection: Connection, names: TraceNames, keys: Collection[TraceKey]) -> Iterator[int]:
    """Yield the ids of traces; of a former name, that of the current trace."""
    for some in parts([key.hash for key in keys], _MOST_NAMED):
        for trace_id in connection.execute(sa.select(traces.c.id).where(traces.c.hash.in_(some))).scalars():
            yield names.current.get(trace_id, trace_id)


Runs: TypeAlias = tuple[int, ...]
"""Ids of the runs of a column."""


class Replicates:
    """The samples of a store, to estimate the noise of single runs; safe for several processes at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def of(self, wanted: Mapping[Runs, Sequence[int]]) -> dict[tuple[Runs, int], tuple[float, ...]]:
        """Return the samples of traces in columns, in the order of the runs.

        :param wanted: the ids of the requested traces, by the runs of the column.
        :returns: samples by the runs of the column and the id of the trace; traces without samples that may
            enter a trend are omitted.
        """
        found: dict[tuple[Runs, int], tuple[float, ...]] = {}
        with read_transaction(self._engine) as connection:
            names = names_of(connection)
            query = sa.select(results.c.run_id, names.trace_id, results.c.samples)
            query = query.where(USABLE, names.counts)
            for column, ids in wanted.items():
                for some in parts(ids, _AT_ONCE):
                    chosen = results.c.run_id.in_(column) & results.c.trace_id.in_(names.with_former(some))
                    measured = connection.execute(query.where(chosen)).all()
                    for _, trace, samples in sorted(measured, key=lambda row: (column.index(row[0]), row[1])):
                        found[column, trace] = (*found.get((column, trace), ()), *unpack_samples(samples))
        return {key: samples for key, samples in found.items() if samples}
