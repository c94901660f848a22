"""The store of runs and results, as the rest of perftrend sees it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from perftrend.errors import StoreError
from perftrend.model import Result, Run, Series
from perftrend.store import rows, series
from perftrend.store.connection import engine_of, reading, writing
from perftrend.store.requests import Requests
from perftrend.store.schema import details, results, runs, trace_params, traces
from perftrend.store.upgrade import upgrade


class Store:
    """Runs and their results, kept in a database; safe for several processes at once.

    ::

        with Store.open("perftrend.sqlite") as store:
            store.add(run, results)
            for series in store.series("1n-veth", last=180): ...
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @classmethod
    def open(cls, place: str | Path) -> Store:
        """Open a store; create it or bring its schema up to date where that is needed.

        :param place: the path of an SQLite file, or a URL such as ``postgresql://host/name``.
        :raises StoreError: if it cannot be opened or written, is no database, belongs to another
            program, or was written by a newer version.
        """
        engine = engine_of(place)
        try:
            upgrade(engine, engine.url.render_as_string().removeprefix("sqlite:///"))
        except StoreError:
            engine.dispose()
            raise
        return cls(engine)

    def close(self) -> None:
        """Let the database go."""
        self._engine.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def requests(self) -> Requests:
        """What comments asked for."""
        return Requests(self._engine)

    def add(self, run: Run, results: Iterable[Result]) -> bool:
        """Put a run with all its results into the store, in one transaction.

        :param results: at most one per trace.
        :returns: False if the store has this run already (the same job, build and testbed); then
            nothing is changed, whatever the results are.
        :raises StoreError: if it cannot be written, if two results are of one trace, or if a
            trace's unit or better direction is not what it was; nothing is changed.
        """
        by_hash: dict[str, Result] = {}
        for result in results:
            if by_hash.setdefault(result.key.hash, result) is not result:
                raise StoreError(f"run {run.name}: two results are of one trace, {result.key}")
        with writing(self._engine) as connection:
            if _run_id(connection, run) is not None:
                return False
            _insert(connection, run, by_hash)
        return True

    def runs(self, testbed: str, *, last: int | None = None) -> list[Run]:
        """Return the runs of a testbed in the order of time, or the newest ``last`` of them."""
        with reading(self._engine) as connection:
            return list(series.runs_of(connection, testbed, last=last).values())

    def run(self, job: str, build: int) -> Run | None:
        """Return the run of a build, on whatever testbed; the newest one where it ran on several."""
        with reading(self._engine) as connection:
            query = sa.select(runs).where(runs.c.job == job, runs.c.build == build)
            row = connection.execute(query.order_by(runs.c.started.desc()).limit(1)).first()
            return rows.run_of_row(row) if row else None

    def results(self, run: Run) -> list[Result]:
        """Return the results of a run with all their details; empty if there is no such run."""
        with reading(self._engine) as connection:
            return series.results_of(connection, _run_id(connection, run))

    def series(
        self,
        testbed: str,
        *,
        last: int | None = None,
        until: Run | None = None,
        where: Mapping[str, str] | None = None,
    ) -> list[Series]:
        """Return the traces of a testbed with their values, in the order of their keys.

        :param last: how many of the testbed's newest runs are looked at; None: all.
        :param until: the newest run that is looked at, to judge an older run as it was judged then.
        :param where: parameters that the traces must have, such as ``{"metric": "mrr"}``.
        :returns: one series per trace that any of these runs tried. A run in which the trace has no
            result at all is not among its runs. The results come without details, which
            :meth:`results` gives.
        """
        with reading(self._engine) as connection:
            chosen = series.runs_of(connection, testbed, last=last, until=until)
            return series.series_of(connection, chosen, where or {})

    def builds(self, job: str) -> frozenset[int]:
        """Return the builds of a job that the store has, on whatever testbed."""
        with reading(self._engine) as connection:
            return frozenset(connection.execute(sa.select(runs.c.build).where(runs.c.job == job)).scalars())

    def next_build(self, job: str) -> int:
        """Return one more than the greatest build of a job: 1 for its first."""
        with reading(self._engine) as connection:
            query = sa.select(sa.func.max(runs.c.build)).where(runs.c.job == job)
            return (connection.execute(query).scalar() or 0) + 1


def _run_id(connection: Connection, run: Run) -> int | None:
    query = sa.select(runs.c.id).where(
        runs.c.job == run.job, runs.c.build == run.build, runs.c.testbed == run.testbed
    )
    return connection.execute(query).scalar()


def _insert(connection: Connection, run: Run, by_hash: Mapping[str, Result]) -> None:
    run_id = _inserted(connection, runs, rows.row_of_run(run))
    trace_ids = _trace_ids(connection, by_hash)
    if not by_hash:
        return
    identified = [(trace_ids[name], result) for name, result in by_hash.items()]
    connection.execute(
        sa.insert(results),
        [{"run_id": run_id, "trace_id": trace, **rows.row_of_result(result)} for trace, result in identified],
    )
    told = [
        {"run_id": run_id, "trace_id": trace, "details": dict(result.details)}
        for trace, result in identified
        if result.details
    ]
    if told:
        connection.execute(sa.insert(details), told)


def _trace_ids(connection: Connection, by_hash: Mapping[str, Result]) -> dict[str, int]:
    """Return the traces' ids by hash; traces that the store does not know yet are entered."""
    query = sa.select(traces.c.hash, traces.c.id, traces.c.unit, traces.c.better)
    ids = {}
    for name, trace_id, unit, better in connection.execute(query.where(traces.c.hash.in_(by_hash))):
        result = by_hash[name]
        if (unit, better) != (result.unit, result.better):
            raise StoreError(
                f"trace {result.key} is in {unit}, {better} is better; "
                f"now it came in {result.unit}, {result.better} is better: give it another metric"
            )
        ids[name] = trace_id
    for name, result in by_hash.items():
        if name in ids:
            continue
        row = {"hash": name, "parameters": result.key.json, "unit": result.unit, "better": result.better}
        ids[name] = _inserted(connection, traces, row)
        connection.execute(
            sa.insert(trace_params),
            [{"trace_id": ids[name], "name": key, "value": value} for key, value in result.key.parameters],
        )
    return ids


def _inserted(connection: Connection, table: sa.Table, row: Mapping[str, Any]) -> int:
    key = connection.execute(sa.insert(table), row).inserted_primary_key
    return int(key[0]) if key else 0
