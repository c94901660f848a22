"""Identification of the runs with one build number that are the same execution.

Jenkins counts from 1 again if a job is deleted and created again, restored or moved. So the build number does
not identify a run, but the time at which its suites ran does. Two outputs of one run may contain slightly
different times, because one has those of the suites and the other those of the tests. These times overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy import Row
from sqlalchemy.engine import Connection

from perftrend.model import Result, Run
from perftrend.store import rows
from perftrend.store.schema import results, runs, traces


def of_number(connection: Connection, run: Run) -> Sequence[Row[tuple[object, ...]]]:
    """Return the runs with the job, the build number and the testbed of a run, in the order of time."""
    query = sa.select(runs).where(
        runs.c.job == run.job, runs.c.build == run.build, runs.c.testbed == run.testbed
    )
    return connection.execute(query.order_by(runs.c.started, runs.c.id)).all()


def find_replaced(connection: Connection, testbed: str) -> Sequence[Row[tuple[object, ...]]]:
    """Return the runs of a testbed whose build numbers were reused by later runs of their jobs."""
    later = runs.alias()
    same = (later.c.job == runs.c.job) & (later.c.build == runs.c.build) & (later.c.testbed == runs.c.testbed)
    query = sa.select(runs).where(
        runs.c.testbed == testbed, sa.exists().where(same, later.c.started > runs.c.started)
    )
    return connection.execute(query).all()


def find(connection: Connection, run: Run) -> int | None:
    """Return the id of a run; None if the store does not have it.

    The stored run may come from another source, with another start time.
    """
    same = [row.id for row in of_number(connection, run) if _is_same_moment(row, run)]
    return same[-1] if same else None


def find_execution(connection: Connection, run: Run, by_hash: Mapping[str, Result]) -> int | None:
    """Return the id of the run that is the same execution; None if the store does not have it.

    If a stored run is found by its samples, the times of the suites are stored with it.
    """
    for row in of_number(connection, run):
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
