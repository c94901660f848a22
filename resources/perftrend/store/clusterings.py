"""Clusterings that were asked for, and how far they are: one row per testbed, for all processes.

The row is the request, the lease and the progress in one. Whoever asks while a clustering is asked for
or runs, joins it. A process claims one with a token of its own and a moment until which it has to be heard
of again; when it is not, as it was killed, another one begins anew. Only who holds the token can end it,
so a result enters once, however many processes there are.
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
from perftrend.store.connection import entering, reading, writing
from perftrend.store.schema import clusterings

LEASE = timedelta(seconds=60)
"""A process that was not heard of for so long has lost its clustering."""
MOST_ATTEMPTS = 3
"""What was begun so often and never ended ends processes, and is given up."""


class State(StrEnum):
    """How far a clustering is."""

    IDLE = "idle"
    """None was ever asked for."""
    ASKED = "asked"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    """A person has ended it."""


UNDER_WAY = (State.ASKED, State.RUNNING)


@dataclass(frozen=True, slots=True)
class Clustering:
    """The newest clustering of a testbed."""

    testbed: str
    state: State
    options: Mapping[str, Any]
    who: str
    """Who asked for it; empty: nobody, it was time."""
    asked: datetime | None
    token: str
    """Of the process that has it."""
    until: datetime | None
    """When the process that has it is given up."""
    attempts: int
    stage: str
    """What is being done now, in words; what went wrong where it has failed."""
    finished: datetime | None
    result: Mapping[str, Any]
    """Numbers about the newest one that was done."""
    periodic: datetime | None
    """When it was last looked at whether one is due."""
    data: str
    """What the newest periodic one was of: it changes where there is something new."""

    @property
    def under_way(self) -> bool:
        """Whether it is asked for or runs."""
        return self.state in UNDER_WAY


class Clusterings:
    """The clusterings of a store; safe for several processes at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def of(self, testbed: str) -> Clustering | None:
        """Return the newest clustering of a testbed; None: there never was one."""
        with reading(self._engine) as connection:
            query = sa.select(clusterings).where(clusterings.c.testbed == testbed)
            row = connection.execute(query).mappings().first()
            return _clustering(row) if row else None

    def all(self) -> list[Clustering]:
        """Return the newest clustering of each testbed that had one."""
        with reading(self._engine) as connection:
            query = sa.select(clusterings).order_by(clusterings.c.testbed)
            return [_clustering(row) for row in connection.execute(query).mappings()]

    def ask(self, testbed: str, options: Mapping[str, Any], who: str) -> tuple[Clustering, bool]:
        """Ask for a clustering, which enters the activity log, or join the one that is under way.

        :returns: what is under way now, and whether it is the one that is asked for here.
        """
        with writing(self._engine) as connection:
            now = _locked(connection, testbed)
            if now.under_way:
                return now, False
            record(connection, who, "asked for a clustering", f"clusters of {testbed}")
            return _asked(connection, now, options, who), True

    def ask_periodically(
        self, testbed: str, options: Mapping[str, Any], *, data: str, period: timedelta, now: datetime
    ) -> bool:
        """Ask for a clustering when the last one that was due is a period ago, and there is something new.

        Of several processes that do so at once, one does it.

        :param data: tells the values that would be clustered from those that were.
        """
        with writing(self._engine) as connection:
            known = _locked(connection, testbed)
            if known.under_way or (known.periodic is not None and known.periodic > now - period):
                return False
            _change(connection, testbed, periodic=now, data=data)
            if known.data == data:
                return False
            _asked(connection, known, options, "")
        return True

    def claim(self, now: datetime) -> Clustering | None:
        """Take over a clustering that nobody runs; None: there is nothing to do."""
        lapsed = (clusterings.c.state == State.RUNNING) & (clusterings.c.until < now)
        query = sa.select(clusterings).where((clusterings.c.state == State.ASKED) | lapsed)
        query = query.order_by(clusterings.c.asked).limit(1)
        with reading(self._engine) as connection:
            # Most of the time there is nothing to do, and a reader waits for nobody.
            if connection.execute(query).first() is None:
                return None
        with writing(self._engine) as connection:
            row = connection.execute(query.with_for_update(skip_locked=True)).mappings().first()
            if row is None:
                return None
            task = _clustering(row)
            if task.attempts >= MOST_ATTEMPTS:
                stage = f"given up: {MOST_ATTEMPTS} processes ended over it; ask for fewer traces"
                _change(connection, task.testbed, state=State.FAILED, stage=stage, finished=now, token="")
                return None
            begun = replace(
                task, state=State.RUNNING, token=secrets.token_hex(8), until=now + LEASE,
                attempts=task.attempts + 1, stage="begins",
            )  # fmt: skip
            _change(
                connection, task.testbed, state=begun.state, token=begun.token, until=begun.until,
                attempts=begun.attempts, stage=begun.stage,
            )  # fmt: skip
            return begun

    def beat(self, task: Clustering, stage: str, now: datetime) -> bool:
        """Tell what is being done, and keep the lease; False: it is cancelled, or lost to another process."""
        with writing(self._engine) as connection:
            if not held(connection, task):
                return False
            _change(connection, task.testbed, stage=stage, until=now + LEASE)
        return True

    def give_back(self, task: Clustering) -> None:
        """Let another process, or this one at its next start, begin anew: it was told to stop."""
        with writing(self._engine) as connection:
            if held(connection, task):
                begun = task.attempts - 1
                _change(connection, task.testbed, state=State.ASKED, token="", attempts=begun, stage="waits")

    def fail(self, task: Clustering, reason: str) -> None:
        """End a clustering that cannot be done; a periodic one is due again when its period is over."""
        with writing(self._engine) as connection:
            if held(connection, task):
                ended = {"state": State.FAILED, "token": "", "stage": reason, "finished": datetime.now(UTC)}
                # What it was of is not clustered yet, so the next one must not find it known.
                ended |= {} if task.who else {"data": ""}
                _change(connection, task.testbed, **ended)

    def cancel(self, testbed: str, who: str) -> Clustering | None:
        """End the clustering of a testbed that is asked for or runs; its result never enters the store.

        Whoever runs it learns of it by the next :meth:`beat`. What has ended stays as it is.

        :returns: the newest clustering of the testbed as it is now; None: there never was one.
        """
        with writing(self._engine) as connection:
            query = sa.select(clusterings).where(clusterings.c.testbed == testbed).with_for_update()
            row = connection.execute(query).mappings().first()
            if row is None or not _clustering(row).under_way:
                return _clustering(row) if row else None
            ended: dict[str, Any] = {"state": State.CANCELLED, "token": "", "until": None}
            ended |= {"stage": f"{who} has cancelled it", "finished": datetime.now(UTC)}
            _change(connection, testbed, **ended)
            record(connection, who, "cancelled a clustering", f"clusters of {testbed}")
            return replace(_clustering(row), **ended)


def held(connection: Connection, task: Clustering) -> bool:
    """Tell whether a clustering still belongs to who claimed it; it does until the transaction ends then."""
    query = sa.select(clusterings.c.token).where(clusterings.c.testbed == task.testbed).with_for_update()
    return connection.execute(query).scalar() == task.token


def finished(connection: Connection, task: Clustering, result: Mapping[str, Any]) -> None:
    """End a clustering that is done."""
    now = datetime.now(UTC)
    _change(
        connection, task.testbed, state=State.DONE, token="", stage="", finished=now, result=dict(result)
    )  # fmt: skip


def forget_data(connection: Connection, testbed: str | None) -> None:
    """Let the next periodic clustering run whether there is something new or not; None: of all testbeds."""
    query = sa.update(clusterings).values(data="")
    connection.execute(query if testbed is None else query.where(clusterings.c.testbed == testbed))


def _locked(connection: Connection, testbed: str) -> Clustering:
    """Return the row of a testbed, which nobody else changes until the transaction ends."""
    query = sa.select(clusterings).where(clusterings.c.testbed == testbed).with_for_update()
    row = connection.execute(query).mappings().first()
    if row is None:
        new = {"options": {}, "who": "", "token": "", "attempts": 0, "stage": "", "result": {}, "data": ""}
        try:
            with entering(connection):
                connection.execute(sa.insert(clusterings), {"testbed": testbed, "state": State.IDLE, **new})
        except IntegrityError:
            # Another process was first. Its row is there now.
            pass
        row = connection.execute(query).mappings().one()
    return _clustering(row)


def _asked(connection: Connection, old: Clustering, options: Mapping[str, Any], who: str) -> Clustering:
    new: dict[str, Any] = {
        "state": State.ASKED,
        "options": dict(options),
        "who": who,
        "asked": datetime.now(UTC),
    }
    new |= {"token": "", "until": None, "attempts": 0, "stage": "waits", "finished": None}
    _change(connection, old.testbed, **new)
    return replace(old, **new)


def _change(connection: Connection, testbed: str, **columns: object) -> None:
    connection.execute(sa.update(clusterings).where(clusterings.c.testbed == testbed).values(**columns))


def _clustering(row: sa.RowMapping) -> Clustering:
    return Clustering(**{**row, "state": State(row["state"])})
