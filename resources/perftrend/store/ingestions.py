"""Builds that somebody told of, and how far their way into the store is.

They stand here until they are done, so that neither a restart nor a kill loses one. Whoever tells of a build
that is under way joins it. A process that takes one says from time to time that it still has it; one that is
not heard of any more has lost it, and another one begins anew: a build enters the store once, however often
it is tried.
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
"""A process that was not heard of for so long has lost what it took."""
KEPT = 1000
"""So many are remembered."""


class State(StrEnum):
    """How far an ingestion is."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    """The store has the build."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Ingestion:
    """A build that somebody told of."""

    number: int
    """Grows from one to the next."""
    source: str
    """Where the build is; empty: where the settings say."""
    job: str
    build: int
    state: State
    asked: datetime
    due: datetime
    """When it is taken, at the earliest."""
    until: datetime | None
    """When the process that has taken it is given up."""
    attempts: int
    ended: datetime | None
    exit_code: int | None
    """How the newest attempt ended."""
    told: str
    """What it said last."""


class Ingestions:
    """The ingestions of a store; safe for several processes at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def ask(
        self, job: str, build: int, *, now: datetime, most: int, source: str = ""
    ) -> tuple[Ingestion | None, bool]:
        """Ask for a build, or join who has asked for it.

        :param most: no more wait at the same time.
        :returns: what is under way, and whether it is new; None where too many wait already.
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
        """Take what is due longest; None: there is nothing."""
        lapsed = (ingestions.c.state == State.RUNNING) & (ingestions.c.until < now)
        waits = (ingestions.c.state == State.WAITING) & (ingestions.c.due <= now)
        query = sa.select(ingestions).where(waits | lapsed).order_by(ingestions.c.due).limit(1)
        with reading(self._engine) as connection:
            # Most of the time there is nothing to do, and a reader waits for nobody.
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
        """Say that who has taken it still has it; False: somebody else has taken it since."""
        return self._change(taken, until=now + LEASE)

    def finish(
        self, taken: Ingestion, *, state: State, now: datetime, exit_code: int | None, told: str
    ) -> bool:
        """Note how it ended; nothing is noted where somebody else has taken it since."""
        return self._change(taken, state=state, ended=now, until=None, exit_code=exit_code, told=told)

    def put_back(
        self, taken: Ingestion, *, due: datetime, exit_code: int | None = None, told: str = ""
    ) -> bool:
        """Let it be taken again from a moment on."""
        return self._change(taken, state=State.WAITING, due=due, until=None, exit_code=exit_code, told=told)

    def newest(self, limit: int) -> list[Ingestion]:
        """Return those that were asked for last, the newest first."""
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
