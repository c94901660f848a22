"""Requested clusterings and their progress: one row per testbed, shared by all processes.

The row is the request, the lease and the progress in one. A request joins a clustering that is requested
already or running. A process claims a clustering with its own token and a lease that it renews. If the lease
expires, for example because the process was killed, another process starts again. Only the holder of the
token can finish the clustering, so its result is stored once, regardless of the number of processes.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import IntegrityError

from perftrend.store.activity import record
from perftrend.store.claims import claim_row
from perftrend.store.connection import read_transaction, savepoint, write_transaction
from perftrend.store.schema import clusterings

LEASE = timedelta(seconds=60)
"""Time after which a process that does not renew its lease loses its clustering."""
MOST_ATTEMPTS = 3
"""Attempts after which an unfinished clustering is given up, because it probably kills its processes."""


class ClusteringState(StrEnum):
    """The state of a clustering."""

    IDLE = "idle"
    """None was ever requested."""
    REQUESTED = "asked"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    """A user has ended it."""


UNDER_WAY = (ClusteringState.REQUESTED, ClusteringState.RUNNING)


@dataclass(frozen=True, slots=True)
class NewestClustering:
    """The newest clustering of a testbed."""

    testbed: str
    state: ClusteringState
    options: Mapping[str, Any]
    who: str
    """The user who requested it; empty if it is periodic."""
    asked: datetime | None
    token: str
    """The token of the process that claimed it."""
    until: datetime | None
    """When the lease of that process expires."""
    attempts: int
    stage: str
    """Description of the current step; of the error if it failed."""
    finished: datetime | None
    result: Mapping[str, Any]
    """Numbers about the newest one that finished."""
    periodic: datetime | None
    """When the last periodic check was made."""
    data: str
    """Identifies the values at the newest periodic check; changes with new values."""

    @property
    def under_way(self) -> bool:
        """Whether it is requested or running."""
        return self.state in UNDER_WAY


class Clusterings:
    """The clusterings of a store; safe for several processes at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def of(self, testbed: str) -> NewestClustering | None:
        """Return the newest clustering of a testbed; None if there never was one."""
        with read_transaction(self._engine) as connection:
            query = sa.select(clusterings).where(clusterings.c.testbed == testbed)
            row = connection.execute(query).mappings().first()
            return _clustering(row) if row else None

    def all(self) -> list[NewestClustering]:
        """Return the newest clustering of each testbed that had one."""
        with read_transaction(self._engine) as connection:
            query = sa.select(clusterings).order_by(clusterings.c.testbed)
            return [_clustering(row) for row in connection.execute(query).mappings()]

    def request(self, testbed: str, options: Mapping[str, Any], user: str) -> tuple[NewestClustering, bool]:
        """Request a clustering and record it in the activity log, or join the one that is under way.

        :returns: the clustering that is under way now, and whether this call requested it.
        """
        with write_transaction(self._engine) as connection:
            now = _lock_row(connection, testbed)
            if now.under_way:
                return now, False
            record(connection, user, "requested a clustering", f"clusters of {testbed}")
            return _store_request(connection, now, options, user), True

    def request_periodically(
        self, testbed: str, options: Mapping[str, Any], *, data: str, period: timedelta, now: datetime
    ) -> bool:
        """Request a clustering if the last periodic check is a period ago and there are new values.

        If several processes call this at once, one of them makes the request.

        :param data: identifies the values that would be clustered; equal if none is new.
        """
        with write_transaction(self._engine) as connection:
            known = _lock_row(connection, testbed)
            if known.under_way or (known.periodic is not None and known.periodic > now - period):
                return False
            _change(connection, testbed, periodic=now, data=data)
            if known.data == data:
                return False
            _store_request(connection, known, options, "")
        return True

    def claim(self, now: datetime) -> NewestClustering | None:
        """Claim a clustering that no process runs; None if there is nothing to do."""
        lapsed = (clusterings.c.state == ClusteringState.RUNNING) & (clusterings.c.until < now)
        due = (clusterings.c.state == ClusteringState.REQUESTED) | lapsed

        def begin(row: sa.RowMapping) -> Mapping[str, Any]:
            if row["attempts"] >= MOST_ATTEMPTS:
                stage = f"given up: {MOST_ATTEMPTS} processes ended over it; request fewer traces"
                return {"state": ClusteringState.FAILED, "stage": stage, "finished": now, "token": ""}
            return {
                "state": ClusteringState.RUNNING,
                "token": secrets.token_hex(8),
                "until": now + LEASE,
                "attempts": row["attempts"] + 1,
                "stage": "begins",
            }

        row = claim_row(self._engine, clusterings, due, first=clusterings.c.asked, change=begin)
        return _clustering(row) if row and row["state"] == ClusteringState.RUNNING else None

    def beat(self, task: NewestClustering, stage: str, now: datetime) -> bool:
        """Store the current step, and renew the lease; False if it is cancelled or another process has it."""
        with write_transaction(self._engine) as connection:
            if not has_claim(connection, task):
                return False
            _change(connection, task.testbed, stage=stage, until=now + LEASE)
        return True

    def give_back(self, task: NewestClustering) -> None:
        """Release a clustering because this process stops; it starts again in another one."""
        with write_transaction(self._engine) as connection:
            if has_claim(connection, task):
                begun = task.attempts - 1
                _change(
                    connection,
                    task.testbed,
                    state=ClusteringState.REQUESTED,
                    token="",
                    attempts=begun,
                    stage="waits",
                )

    def fail(self, task: NewestClustering, reason: str) -> None:
        """Mark a clustering as failed; a periodic one is due again after its period."""
        with write_transaction(self._engine) as connection:
            if has_claim(connection, task):
                ended = {
                    "state": ClusteringState.FAILED,
                    "token": "",
                    "stage": reason,
                    "finished": datetime.now(UTC),
                }
                # These values are not clustered yet, so the next check has to find them new.
                ended |= {} if task.who else {"data": ""}
                _change(connection, task.testbed, **ended)

    def cancel(self, testbed: str, user: str) -> NewestClustering | None:
        """Cancel the requested or running clustering of a testbed; its result is never stored.

        The process that runs it notices this in its next :meth:`beat`. A finished clustering is not changed.

        :returns: the newest clustering of the testbed as it is now; None if there never was one.
        """
        with write_transaction(self._engine) as connection:
            query = sa.select(clusterings).where(clusterings.c.testbed == testbed).with_for_update()
            row = connection.execute(query).mappings().first()
            if row is None or not _clustering(row).under_way:
                return _clustering(row) if row else None
            ended: dict[str, Any] = {"state": ClusteringState.CANCELLED, "token": "", "until": None}
            ended |= {"stage": f"{user} has cancelled it", "finished": datetime.now(UTC)}
            _change(connection, testbed, **ended)
            record(connection, user, "cancelled a clustering", f"clusters of {testbed}")
            return replace(_clustering(row), **ended)


def has_claim(connection: Connection, task: NewestClustering) -> bool:
    """Return whether a process still has the clustering that it claimed; locks it for the transaction."""
    query = sa.select(clusterings.c.token).where(clusterings.c.testbed == task.testbed).with_for_update()
    return connection.execute(query).scalar() == task.token


def finish(connection: Connection, task: NewestClustering, result: Mapping[str, Any]) -> None:
    """Mark a clustering as done."""
    now = datetime.now(UTC)
    _change(
        connection,
        task.testbed,
        state=ClusteringState.DONE,
        token="",
        stage="",
        finished=now,
        result=dict(result),
    )


def forget_data(connection: Connection, testbed: str | None) -> None:
    """Let the next periodic clustering run even without new values; None for all testbeds."""
    query = sa.update(clusterings).values(data="")
    connection.execute(query if testbed is None else query.where(clusterings.c.testbed == testbed))


def _lock_row(connection: Connection, testbed: str) -> NewestClustering:
    """Return the row of a testbed, locked until the transaction ends."""
    query = sa.select(clusterings).where(clusterings.c.testbed == testbed).with_for_update()
    row = connection.execute(query).mappings().first()
    if row is None:
        new = {"options": {}, "who": "", "token": "", "attempts": 0, "stage": "", "result": {}, "data": ""}
        try:
            with savepoint(connection):
                connection.execute(
                    sa.insert(clusterings), {"testbed": testbed, "state": ClusteringState.IDLE, **new}
                )
        except IntegrityError:
            # Another process was first. Its row is there now.
            pass
        row = connection.execute(query).mappings().one()
    return _clustering(row)


def _store_request(
    connection: Connection, old: NewestClustering, options: Mapping[str, Any], user: str
) -> NewestClustering:
    new: dict[str, Any] = {
        "state": ClusteringState.REQUESTED,
        "options": dict(options),
        "who": user,
        "asked": datetime.now(UTC),
    }
    new |= {"token": "", "until": None, "attempts": 0, "stage": "waits", "finished": None}
    _change(connection, old.testbed, **new)
    return replace(old, **new)


def _change(connection: Connection, testbed: str, **columns: object) -> None:
    connection.execute(sa.update(clusterings).where(clusterings.c.testbed == testbed).values(**columns))


def _clustering(row: Mapping[str, Any] | sa.RowMapping) -> NewestClustering:
    return NewestClustering(**{**row, "state": ClusteringState(row["state"])})
