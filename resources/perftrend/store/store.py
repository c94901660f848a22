"""The store of runs and results, as the rest of perftrend sees it."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import IntegrityError

from perftrend import COMMAND
from perftrend.errors import StoreError, UnstorableError
from perftrend.model import Result, Run, Series, TraceKey
from perftrend.store import result_queries, rows
from perftrend.store.access import Grants, Spent, StoredSessions, Tokens
from perftrend.store.activity import Activity
from perftrend.store.alerts import Alerts
from perftrend.store.annotations import Annotations
from perftrend.store.claims import Leadership
from perftrend.store.clusterings import Clusterings
from perftrend.store.clusters import Clusters
from perftrend.store.connection import (
    Changes,
    alone,
    engine_of,
    may_exist,
    read_transaction,
    savepoint,
    write_transaction,
)
from perftrend.store.ingestions import Archives, Ingestions, note_read
from perftrend.store.invalidations import Invalidations
from perftrend.store.renames import Renames, follow_new_traces
from perftrend.store.requests import Requests
from perftrend.store.result_queries import Replicates
from perftrend.store.retention import Retention
from perftrend.store.schema import HEAD, build_numbers, details, results, runs, trace_params, traces
from perftrend.store.schema_version import has_newest_version, upgrade, version_of
from perftrend.store.shortcuts import Shortcuts, ShortUrls, Views
from perftrend.store.statistics import Statistics
from perftrend.store.tiles import Tiles
from perftrend.store.tiles.writer import catch_up, follow
from perftrend.store.verdicts import PatchTests, RunVerdicts

_AT_ONCE = 1000
"""Values in one condition of a query: SQLite accepts 32,766 at most, PostgreSQL 65,535."""


class Store:
    """Runs and their results in a database; safe for several processes at once.

    ::

        with Store.open("perftrend.sqlite") as store:
            store.add(run, results)
            for series in store.series("1n-veth", last=180): ...
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._tiles = Tiles(engine)
        self._changes = Changes(engine)

    @classmethod
    def open(cls, place: str | Path, *, create: bool = True, migrate: bool = True) -> Store:
        """Open a store; create it or migrate its schema if needed.

        :param place: the path of an SQLite file, or a URL such as ``postgresql://host/name``.
        :param create: whether a missing file is created.
        :param migrate: whether an older store is migrated; if not, it is rejected.
        :raises StoreError: if it cannot be opened or written, is not a database, belongs to another
            program, or was written by a newer version; if it does not exist and is not to be created.
        """
        engine = engine_of(place)
        try:
            if not (create or may_exist(engine.url)):
                raise StoreError(
                    f"store {place}: the file does not exist; "
                    f"{COMMAND} trending and {COMMAND} ingest create it"
                )
            name = engine.url.render_as_string().removeprefix("sqlite:///")
            if not migrate and version_of(engine, name) not in {"", HEAD}:
                raise StoreError(
                    f"store {name}: an older perftrend wrote it; back it up ({COMMAND} store backup FILE), "
                    f"and upgrade it: {COMMAND} store migrate"
                )
            upgrade(engine, name)
        except StoreError:
            engine.dispose()
            raise
        return cls(engine)

    @staticmethod
    def may_be_there(place: str | Path) -> bool:
        """Return whether the file of an SQLite store exists; True for the database of a server.

        :raises StoreError: if the kind of database is not known.
        """
        return may_exist(engine_of(place).url)

    def free_bytes(self) -> int | None:
        """Return the free bytes on the disk of an SQLite store; None for the database of a server.

        :raises StoreError: if the file is gone.
        """
        if self._engine.dialect.name != "sqlite":
            return None
        place = str(self._engine.url.database)
        try:
            return shutil.disk_usage(place).free
        except OSError as error:
            raise StoreError(f"store {place}: {error.strerror}") from error

    def has_newest_version(self) -> bool:
        """Return whether its schema is still that of this program.

        :raises StoreError: if it cannot be read.
        """
        return has_newest_version(self._engine)

    def leadership(self, role: str) -> Leadership | None:
        """Return the right to a role that one process at a time has, on all machines together.

        :returns: None for an SQLite store, which only the processes of one machine use.
        """
        return None if self._engine.dialect.name == "sqlite" else Leadership(self._engine, role)

    def close(self) -> None:
        """Close all connections to the database."""
        self._changes.close()
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
        """Requests of comments."""
        return Requests(self._engine)

    @property
    def tiles(self) -> Tiles:
        """The values of many traces over the commits of a testbed."""
        return self._tiles

    @property
    def changes(self) -> Changes:
        """Detection of changes in the database."""
        return self._changes

    @property
    def activity(self) -> Activity:
        """The activity log of the dashboard."""
        return Activity(self._engine)

    @property
    def tokens(self) -> Tokens:
        """API tokens of jobs for the dashboard."""
        return Tokens(self._engine)

    @property
    def grants(self) -> Grants:
        """Roles that admins granted to persons and groups."""
        return Grants(self._engine)

    @property
    def sessions(self) -> StoredSessions:
        """Sessions of signed-in users."""
        return StoredSessions(self._engine)

    @property
    def spent(self) -> Spent:
        """Keys that cannot be used again."""
        return Spent(self._engine)

    @property
    def clusters(self) -> Clusters:
        """The clusters of traces that changed alike, with their triage."""
        return Clusters(self._engine)

    @property
    def clusterings(self) -> Clusterings:
        """The clusterings of the testbeds, and their progress."""
        return Clusterings(self._engine)

    @property
    def shortcuts(self) -> Shortcuts:
        """Plots that users save."""
        return Shortcuts(self._engine)

    @property
    def short_urls(self) -> ShortUrls:
        """Pages that users save."""
        return ShortUrls(self._engine)

    @property
    def views(self) -> Views:
        """Pages under names."""
        return Views(self._engine)

    @property
    def replicates(self) -> Replicates:
        """The samples behind many values at once."""
        return Replicates(self._engine)

    @property
    def annotations(self) -> Annotations:
        """Annotations of commits."""
        return Annotations(self._engine)

    @property
    def invalidations(self) -> Invalidations:
        """Runs and results that a user marked as invalid."""
        return Invalidations(self._engine)

    @property
    def verdicts(self) -> RunVerdicts:
        """The verdicts of the runs."""
        return RunVerdicts(self._engine)

    @property
    def renames(self) -> Renames:
        """Names that traces had before."""
        return Renames(self._engine)

    @property
    def patch_tests(self) -> PatchTests:
        """Patch sets that were compared with their parents."""
        return PatchTests(self._engine)

    @property
    def alerts(self) -> Alerts:
        """Alerts, the items that they found, and the outbox."""
        return Alerts(self._engine)

    @property
    def ingestions(self) -> Ingestions:
        """Builds that were reported to the dashboard."""
        return Ingestions(self._engine)

    @property
    def statistics(self) -> Statistics:
        """Figures for monitoring."""
        return Statistics(self._engine)

    @property
    def archives(self) -> Archives:
        """Archives that were read."""
        return Archives(self._engine)

    @property
    def retention(self) -> Retention:
        """Rows by their age, to delete old ones."""
        return Retention(self._engine)

    def add(self, run: Run, results: Iterable[Result], *, version: str = "") -> bool:
        """Add a run with all its results to the store and to the tiles, in one transaction.

        A stored run of the same job, build and testbed is the same run if its suites ran at the same time. If
        it is not known when the suites of one of them ran, the runs are the same if they started at the same
        moment or have the same samples. Any other run is new: the job counts its builds from 1 again.

        :param results: at most one per trace.
        :param version: of the run's archive, as its source lists it; empty if that is not known.
        :returns: False if the store has this run already; then no result is changed, and of the run at most
            the missing times of its suites are added.
        :raises UnstorableError: if two results have the same trace, if the unit or the better direction of a
            trace has changed, or if the database cannot hold a value; nothing is changed.
        :raises StoreError: if it cannot be written; nothing is changed.
        """
        by_hash = _by_hash(run, results)
        with write_transaction(self._engine) as connection:
            alone(connection, run.name)
            run_id, is_new = _insert_run(connection, run, by_hash)
            note_read(connection, run.archive, version, run_id=run_id)
            if is_new:
                follow(connection, run.testbed, run_id)
        return is_new

    def add_all(self, measured: Iterable[tuple[Run, Iterable[Result]]]) -> int:
        """Add many runs to the store and to the tiles, in one transaction: all of them or none.

        Other writers wait meanwhile, so use it for stores that are not in use yet, such as an example.

        :returns: the number of runs that the store did not have.
        :raises StoreError: as :meth:`add`.
        """
        testbeds = []
        with write_transaction(self._engine) as connection:
            for run, results in measured:
                run_id, is_new = _insert_run(connection, run, _by_hash(run, results))
                note_read(connection, run.archive, "", run_id=run_id)
                if is_new:
                    testbeds.append(run.testbed)
            for testbed in sorted(set(testbeds)):
                catch_up(connection, testbed)
        return len(testbeds)

    def runs(self, testbed: str, *, last: int | None = None) -> list[Run]:
        """Return the runs of a testbed in the order of time, or the newest ``last`` of them."""
        with read_transaction(self._engine) as connection:
            return list(result_queries.runs_of(connection, testbed, last=last).values())

    def run(self, job: str, build: int, *, started: datetime | None = None) -> Run | None:
        """Return the run of a build, on any testbed; the newest one if several have this number.

        :param started: only a run that started at this moment.
        """
        with read_transaction(self._engine) as connection:
            query = sa.select(runs).where(runs.c.job == job, runs.c.build == build)
            if started is not None:
                query = query.where(runs.c.started == started)
            row = connection.execute(query.order_by(runs.c.started.desc()).limit(1)).first()
            return rows.run_of_row(row) if row else None

    def results(self, run: Run) -> list[Result]:
        """Return the results of a run with all their details; empty if there is no such run."""
        with read_transaction(self._engine) as connection:
            return result_queries.results_of(connection, result_queries.find_run(connection, run))

    def series(
        self,
        testbed: str,
        *,
        last: int | None = None,
        until: Run | None = None,
        where: Mapping[str, str] | None = None,
        keys: Collection[TraceKey] | None = None,
    ) -> list[Series]:
        """Return the traces of a testbed with their values, in the order of their keys.

        :param last: maximum number of its own newest runs that a trace has; None for all.
        :param until: the newest run that is read, to evaluate an older run as it was evaluated then.
        :param where: parameters that the traces must have, such as ``{"metric": "mrr"}``.
        :param keys: only these traces, regardless of when they were last tried; None for all.
        :returns: one series per trace that was tried in the testbed's ``last`` newest runs, or in the two
            newest ones of the job of ``until``; or that is one of ``keys``. A run in which the trace has no
            result at all is not among its runs. The results come without details, which :meth:`results`
            returns.
        """
        with read_transaction(self._engine) as connection:
            return result_queries.series_of(
                connection, testbed, last=last, until=until, where=where or {}, keys=keys
            )

    def executions(self, run: Run) -> list[Run]:
        """Return the runs with the job, the build number and the testbed of a run, in the order of time."""
        with read_transaction(self._engine) as connection:
            return [rows.run_of_row(row) for row in result_queries.runs_of_number(connection, run)]

    def find_replaced(self, testbed: str) -> frozenset[Run]:
        """Return the runs of a testbed whose build numbers were reused by later runs of their jobs."""
        with read_transaction(self._engine) as connection:
            return frozenset(
                rows.run_of_row(row) for row in result_queries.find_replaced_runs(connection, testbed)
            )

    def allocate_build_number(self, job: str, *, above: int = 0) -> int:
        """Return the next build number of a job, 1 for its first; no two calls return the same one.

        :param above: a number that is in use elsewhere, such as in an archive; 0 if none is.
        """
        with write_transaction(self._engine) as connection:
            alone(connection, job)
            greatest = sa.select(sa.func.max(runs.c.build)).where(runs.c.job == job)
            given = sa.select(build_numbers.c.last).where(build_numbers.c.job == job)
            last = connection.execute(given).scalar()
            number = max(above, last or 0, connection.execute(greatest).scalar() or 0) + 1
            if last is None:
                connection.execute(sa.insert(build_numbers), {"job": job, "last": number})
            else:
                changed = sa.update(build_numbers).where(build_numbers.c.job == job)
                connection.execute(changed.values(last=number))
        return number


def _by_hash(run: Run, results: Iterable[Result]) -> dict[str, Result]:
    by_hash: dict[str, Result] = {}
    for result in results:
        if by_hash.setdefault(result.key.hash, result) is not result:
            raise UnstorableError(f"run {run.name}: two results have the same trace, {result.key}")
    return by_hash


def _insert_run(connection: Connection, run: Run, by_hash: Mapping[str, Result]) -> tuple[int, bool]:
    """Insert a run with its results; return its id, and False if the store has it already."""
    known = result_queries.find_execution(connection, run, by_hash)
    if known is not None:
        return known, False
    try:
        with savepoint(connection):
            run_id = _insert_row(connection, runs, rows.row_of_run(run))
    except IntegrityError:
        known = result_queries.find_execution(connection, run, by_hash)
        if known is None:
            raise
        # Another process has entered it meanwhile.
        return known, False
    trace_ids = _trace_ids(connection, by_hash)
    identified = [(trace_ids[name], result) for name, result in by_hash.items()]
    _insert_all(
        connection,
        results,
        [{"run_id": run_id, "trace_id": trace, **rows.row_of_result(result)} for trace, result in identified],
    )
    columns = rows.details_columns((trace, result.details) for trace, result in identified)
    _insert_all(connection, details, [{"run_id": run_id, **column} for column in columns])
    return run_id, True


def _trace_ids(connection: Connection, by_hash: Mapping[str, Result]) -> dict[str, int]:
    """Return the ids of traces by hash; insert traces that the store does not have yet."""
    ids = _find_traces(connection, by_hash, list(by_hash))
    if len(ids) < len(by_hash):
        # Two writers that insert the same traces in different orders would wait for each other.
        alone(connection)
        ids |= _find_traces(connection, by_hash, [name for name in by_hash if name not in ids])
        ids |= _enter_traces(connection, {name: by_hash[name] for name in by_hash if name not in ids})
        follow_new_traces(connection)
    return ids


def _find_traces(
    connection: Connection, by_hash: Mapping[str, Result], names: Sequence[str]
) -> dict[str, int]:
    query = sa.select(traces.c.hash, traces.c.id, traces.c.unit, traces.c.better)
    ids = {}
    for some in rows.parts(names, _AT_ONCE):
        for name, trace_id, unit, better in connection.execute(query.where(traces.c.hash.in_(some))):
            result = by_hash[name]
            # Without a value there is no unit either: it is only what the name of the test suggests.
            if result.samples and (unit, better) != (result.unit, result.better):
                raise UnstorableError(
                    f"trace {result.key} is in {unit}, {better} is better; "
                    f"now it is in {result.unit}, {result.better} is better: use another metric"
                )
            ids[name] = trace_id
    return ids


def _enter_traces(connection: Connection, new: Mapping[str, Result]) -> dict[str, int]:
    _insert_all(
        connection,
        traces,
        [
            {"hash": name, "parameters": result.key.json, "unit": result.unit, "better": result.better}
            for name, result in new.items()
        ],
    )
    ids = _find_traces(connection, new, list(new))
    _insert_all(
        connection,
        trace_params,
        [
            {"trace_id": ids[name], "name": key, "value": value}
            for name, result in new.items()
            for key, value in result.key.parameters
        ],
    )
    return ids


def _insert_all(connection: Connection, table: sa.Table, entered: Sequence[Mapping[str, Any]]) -> None:
    if entered:
        connection.execute(sa.insert(table), entered)


def _insert_row(connection: Connection, table: sa.Table, row: Mapping[str, Any]) -> int:
    key = connection.execute(sa.insert(table), row).inserted_primary_key
    return int(key[0]) if key else 0
