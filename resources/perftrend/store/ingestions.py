"""The queue of reported builds that are to be ingested.

A build is stored here until it is ingested, so that neither a restart nor a kill loses it. A report of a
build that is under way joins it. A process that claims a build renews its lease from time to time. If the
lease expires, another process starts again. A build enters the store once, regardless of the number of
attempts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from perftrend.store.connection import alone, reading, writing
from perftrend.store.schema import ingestions

LEASE = timedelta(seconds=60)
"""Time after which a process that does not renew its lease loses its claim."""
KEPT = 1000
"""Number of ingestions that are retained."""


class State(StrEnum):
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
    state: State
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

    def ask(
        self, job: str, build: int, *, now: datetime, most: int, source: str = ""
    ) -> tuple[Ingestion | None, bool]:
        """Request the ingestion of a build, or join the request that is under way.

        :param most: maximum number of requests under way.
        :returns: the request that is under way, and whether it is new; None if there are too many.
        """
        open_ = ingestions.c.state.in_((State.WAITING, State.RUNNING))
        same = (ingestions.c.source == source) & (ingestions.c.job == job) & (ingestions.c.build == build)
        with writing(self._engine) as connection:
            alone(connection)
            known = connection.execute(sa.select(ingestions).where(open_, same)).mappings().first()
            if known:
                return _ingestion(known), False
            waiting = sa.select(sa.func.count()).select_from(ingestions).where(open_)
            if connection.execute(waiting).scalar_one() >= most:
                return None, False
            row = {
                "source": source, "job": job, "build": build, "state": State.WAITING, "asked": now,
                "due": now, "attempts": 0, "told": "",
            }  # fmt: skip
            key = connection.execute(sa.insert(ingestions), row).inserted_primary_key
            number = int(key[0]) if key else 0
            connection.execute(sa.delete(ingestions).where(~open_, ingestions.c.id <= number - KEPT))
            asked = connection.execute(sa.select(ingestions).where(ingestions.c.id == number))
            return _ingestion(asked.mappings().one()), True

    def claim(self, now: datetime) -> Ingestion | None:
        """Claim the ingestion that has been due for the longest time; None if there is none."""
        lapsed = (ingestions.c.state == State.RUNNING) & (ingestions.c.until < now)
        waits = (ingestions.c.state == State.WAITING) & (ingestions.c.due <= now)
        query = sa.select(ingestions).where(waits | lapsed).order_by(ingestions.c.due).limit(1)
        with reading(self._engine) as connection:
            # Most of the time there is nothing to do, and a reader does not wait for locks.
            if connection.execute(query).first() is None:
                return None
        with writing(self._engine) as connection:
            row = connection.execute(query.with_for_update(skip_locked=True)).mappings().first()
            if row is None:
                return None
            found = _ingestion(row)
            taken = replace(found, state=State.RUNNING, attempts=found.attempts + 1, until=now + LEASE)
            change = sa.update(ingestions).where(ingestions.c.id == taken.number)
            connection.execute(change.values(state=taken.state, attempts=taken.attempts, until=taken.until))
            return taken

    def beat(self, taken: Ingestion, now: datetime) -> bool:
        """Renew the lease of a claim; False if another process has claimed the ingestion since."""
        return self._change(taken, until=now + LEASE)

    def finish(
        self, taken: Ingestion, *, state: State, now: datetime, exit_code: int | None, told: str
    ) -> bool:
        """Store the result of a claim; do nothing if another process has claimed the ingestion since."""
        return self._change(taken, state=state, ended=now, until=None, exit_code=exit_code, told=told)

    def put_back(
        self, taken: Ingestion, *, due: datetime, exit_code: int | None = None, told: str = ""
    ) -> bool:
        """Release a claim; the ingestion can be claimed again from a moment on."""
        return self._change(taken, state=State.WAITING, due=due, until=None, exit_code=exit_code, told=told)

    def newest(self, limit: int) -> list[Ingestion]:
        """Return the newest requests, the newest first."""
        query = sa.select(ingestions).order_by(ingestions.c.id.desc()).limit(limit)
        with reading(self._engine) as connection:
            return [_ingestion(row) for row in connection.execute(query).mappings()]

    def _change(self, taken: Ingestion, **columns: object) -> bool:
        mine = (ingestions.c.id == taken.number) & (ingestions.c.state == State.RUNNING)
        mine &= ingestions.c.attempts == taken.attempts
        with writing(self._engine) as connection:
            return connection.execute(sa.update(ingestions).where(mine).values(**columns)).rowcount == 1


def _ingestion(row: Mapping[str, Any] | sa.RowMapping) -> Ingestion:
    values = dict(row)
    return Ingestion(number=values.pop("id"), **{**values, "state": State(values["state"])})
