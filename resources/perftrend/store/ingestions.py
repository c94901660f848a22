"""Ingestion: the queue of reported builds that are to be ingested, and the archives that were read.

A build is stored here until it is ingested, so that neither a restart nor a kill loses it. A report of a
build that is under way joins it. A process that claims a build renews its lease from time to time. If the
lease expires, another process starts again. A build enters the store once, regardless of the number of
attempts.

Archives are stored with their versions, so that they are not fetched again. A location does not identify an
archive. If a Jenkins job is deleted and created again, its builds have the addresses of earlier builds.
Therefore an archive is read again if its version has changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from perftrend.store.claims import claim_row
from perftrend.store.connection import alone, read_transaction, savepoint, write_transaction
from perftrend.store.schema import ingestions, patch_tests, read_archives, runs

LEASE = timedelta(seconds=60)
"""Time after which a process that does not renew its lease loses its claim."""
MOST_RETAINED = 1000
"""Number of ingestions that are retained."""


class IngestionState(StrEnum):
    """The state of an ingestion."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    """The store has the build."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Ingestion:
    """A build that was reported."""

    number: int
    """Increases from one to the next."""
    source: str
    """The location of the build; empty for the one in the settings."""
    job: str
    build: int
    state: IngestionState
    asked: datetime
    due: datetime
    """When it can be claimed, at the earliest."""
    until: datetime | None
    """When the lease of the process that claimed it expires."""
    attempts: int
    ended: datetime | None
    exit_code: int | None
    """The exit code of the newest attempt."""
    told: str
    """The message of the newest attempt."""


class Ingestions:
    """The ingestions of a store; safe for several processes at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def request(
        self, job: str, build: int, *, now: datetime, most: int, source: str = ""
    ) -> tuple[Ingestion | None, bool]:
        """Request the ingestion of a build, or join the request that is under way.

        :param most: maximum number of requests under way.
        :returns: the request that is under way, and whether it is new; None if there are too many.
        """
        open_ = ingestions.c.state.in_((IngestionState.WAITING, IngestionState.RUNNING))
        same = (ingestions.c.source == source) & (ingestions.c.job == job) & (ingestions.c.build == build)
        with write_transaction(self._engine) as connection:
            alone(connection)
            known = connection.execute(sa.select(ingestions).where(open_, same)).mappings().first()
            if known:
                return _ingestion(known), False
            waiting = sa.select(sa.func.count()).select_from(ingestions).where(open_)
            if connection.execute(waiting).scalar_one() >= most:
                return None, False
            row = {
                "source": source, "job": job, "build": build, "state": IngestionState.WAITING, "asked": now,
                "due": now, "attempts": 0, "told": "",
            }  # fmt: skip
            key = connection.execute(sa.insert(ingestions), row).inserted_primary_key
            number = int(key[0]) if key else 0
            connection.execute(sa.delete(ingestions).where(~open_, ingestions.c.id <= number - MOST_RETAINED))
            inserted = connection.execute(sa.select(ingestions).where(ingestions.c.id == number))
            return _ingestion(inserted.mappings().one()), True

    def claim(self, now: datetime) -> Ingestion | None:
        """Claim the ingestion that has been due for the longest time; None if there is none."""
        lapsed = (ingestions.c.state == IngestionState.RUNNING) & (ingestions.c.until < now)
        waits = (ingestions.c.state == IngestionState.WAITING) & (ingestions.c.due <= now)
        row = claim_row(
            self._engine,
            ingestions,
            waits | lapsed,
            first=ingestions.c.due,
            change=lambda row: {
                "state": IngestionState.RUNNING,
                "attempts": row["attempts"] + 1,
                "until": now + LEASE,
            },
        )
        return _ingestion(row) if row else None

    def beat(self, claim: Ingestion, now: datetime) -> bool:
        """Renew the lease of a claim; False if another process has claimed the ingestion since."""
        return self._change(claim, until=now + LEASE)

    def finish(
        self, claim: Ingestion, *, state: IngestionState, now: datetime, exit_code: int | None, message: str
    ) -> bool:
        """Store the result of a claim; do nothing if another process has claimed the ingestion since."""
        return self._change(claim, state=state, ended=now, until=None, exit_code=exit_code, told=message)

    def release(
        self, claim: Ingestion, *, due: datetime, exit_code: int | None = None, message: str = ""
    ) -> bool:
        """Release a claim; the ingestion can be claimed again from a moment on."""
        return self._change(
            claim, state=IngestionState.WAITING, due=due, until=None, exit_code=exit_code, told=message
        )

    def newest(self, limit: int) -> list[Ingestion]:
        """Return the newest requests, the newest first."""
        query = sa.select(ingestions).order_by(ingestions.c.id.desc()).limit(limit)
        with read_transaction(self._engine) as connection:
            return [_ingestion(row) for row in connection.execute(query).mappings()]

    def _change(self, claim: Ingestion, **columns: object) -> bool:
        mine = (ingestions.c.id == claim.number) & (ingestions.c.state == IngestionState.RUNNING)
        mine &= ingestions.c.attempts == claim.attempts
        with write_transaction(self._engine) as connection:
            return connection.execute(sa.update(ingestions).where(mine).values(**columns)).rowcount == 1


def _ingestion(row: Mapping[str, Any] | sa.RowMapping) -> Ingestion:
    values = dict(row)
    return Ingestion(number=values.pop("id"), **{**values, "state": IngestionState(values["state"])})


class Archives:
    """The archives that the runs and the per-patch tests of a store were read from."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def versions(self, job: str) -> dict[str, str]:
        """Return the versions of a job's archives that were read, by location; empty if a version is unknown.

        A per-patch test in progress whose version is unknown is omitted, so that it is read again.
        """
        query = sa.select(read_archives.c.location, read_archives.c.version)
        may_go_on = sa.not_(patch_tests.c.ended) & (read_archives.c.version == "")
        of_runs = query.join(runs).where(runs.c.job == job)
        of_patches = query.join(patch_tests).where(patch_tests.c.job == job, sa.not_(may_go_on))
        with read_transaction(self._engine) as connection:
            found = connection.execute(sa.union_all(of_runs, of_patches))
            return {row.location: row.version for row in found}

    def note_versions(self, versions: Mapping[str, str]) -> None:
        """Store the versions of archives whose versions were unknown when they were read."""
        if not versions:
            return
        changed = (
            sa.update(read_archives)
            .where(read_archives.c.location == sa.bindparam("place"), read_archives.c.version == "")
            .values(version=sa.bindparam("found"))
        )
        with write_transaction(self._engine) as connection:
            connection.execute(changed, [{"place": place, "found": each} for place, each in versions.items()])


def note_read(
    connection: Connection,
    location: str,
    version: str,
    *,
    run_id: int | None = None,
    patch_test_id: int | None = None,
) -> None:
    """Record that an archive was read, and the run or per-patch test that it contains."""
    if not location:
        return
    noted = {"run_id": run_id, "patch_test_id": patch_test_id, "version": version}
    here = read_archives.c.location == location
    changed = sa.update(read_archives).where(here).values(**noted)
    if connection.execute(changed).rowcount:
        return
    try:
        with savepoint(connection):
            connection.execute(sa.insert(read_archives), {"location": location, **noted})
    except sa.exc.IntegrityError:
        # Another process has read it meanwhile.
        connection.execute(changed)
