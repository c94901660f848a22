"""Figures of a store for monitoring: queues, the lag of the alerts, use of the testbeds, connections.

Each call reads small tables, and the runs once, which are some thousands in a store of years. Results and
traces are not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.pool import QueuePool

from perftrend.store.alerts.outbox import MOST_ATTEMPTS
from perftrend.store.clusterings import ClusteringState
from perftrend.store.connection import read_transaction
from perftrend.store.ingestions import IngestionState
from perftrend.store.schema import alerts, clusterings, evaluations, ingestions, outbox, runs

_INGESTING = (IngestionState.WAITING, IngestionState.RUNNING)
_CLUSTERING = (ClusteringState.REQUESTED, ClusteringState.RUNNING)


@dataclass(frozen=True, slots=True)
class Queue:
    """What waits for a background worker."""

    name: str
    length: int
    oldest: datetime | None
    """Since when its oldest entry has waited; None if it is empty."""


@dataclass(frozen=True, slots=True)
class TestbedFigures:
    """Figures of a testbed."""

    testbed: str
    newest: datetime
    """When its newest run ended."""
    measured_s: float
    """Duration of all its runs together."""
    lag_s: float | None
    """Time between its newest run and the newest one that the alerts have evaluated; None without alerts."""


@dataclass(frozen=True, slots=True)
class StoreFigures:
    """Figures of a store."""

    queues: Sequence[Queue]
    given_up: int
    """Messages of alerts that were not sent and are no longer retried."""
    testbeds: Sequence[TestbedFigures]


@dataclass(frozen=True, slots=True)
class Pool:
    """The connections of this process to the database."""

    in_use: int
    idle: int


class Statistics:
    """Reads the figures of a store."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def pool(self) -> Pool:
        """The connections of this process; known without a query."""
        pool = self._engine.pool
        if not isinstance(pool, QueuePool):
            return Pool(0, 0)
        return Pool(pool.checkedout(), pool.checkedin())

    def read(self) -> StoreFigures:
        """Return the current figures.

        :raises StoreError: if the store cannot be read.
        """
        unsent = outbox.c.sent.is_(None)
        is_tried = outbox.c.attempts < MOST_ATTEMPTS
        with read_transaction(self._engine) as connection:
            queues = [
                _queue(connection, "ingestions", ingestions.c.asked, ingestions.c.state.in_(_INGESTING)),
                _queue(connection, "clusterings", clusterings.c.asked, clusterings.c.state.in_(_CLUSTERING)),
                _queue(connection, "outbox", outbox.c.made, unsent & is_tried),
            ]
            given_up = sa.select(sa.func.count()).select_from(outbox).where(unsent, ~is_tried)
            return StoreFigures(queues, connection.execute(given_up).scalar_one(), _testbeds(connection))


def _queue(
    connection: Connection, name: str, since: sa.Column[datetime], waits: sa.ColumnElement[bool]
) -> Queue:
    length, oldest = connection.execute(sa.select(sa.func.count(), sa.func.min(since)).where(waits)).one()
    return Queue(name, length, oldest)


def _testbeds(connection: Connection) -> list[TestbedFigures]:
    alerting = connection.execute(sa.select(sa.exists().where(alerts.c.enabled))).scalar_one()
    is_evaluated = runs.c.id <= evaluations.c.newest_run
    query = (
        sa.select(
            runs.c.testbed,
            sa.func.max(runs.c.finished).label("newest"),
            sa.func.max(sa.case((is_evaluated, runs.c.finished))).label("evaluated"),
            sa.func.sum(_duration_s(connection)).label("measured_s"),
        )
        .outerjoin(evaluations, evaluations.c.testbed == runs.c.testbed)
        .group_by(runs.c.testbed)
        .order_by(runs.c.testbed)
    )
    found = []
    for row in connection.execute(query):
        is_known = alerting and row.evaluated is not None
        lag_s = (row.newest - row.evaluated).total_seconds() if is_known else None
        found.append(TestbedFigures(row.testbed, row.newest, float(row.measured_s), lag_s))
    return found


def _duration_s(connection: Connection) -> sa.ColumnElement[float]:
    if connection.dialect.name == "sqlite":
        days = sa.func.julianday(runs.c.finished) - sa.func.julianday(runs.c.started)
        return days * 86400.0
    return sa.cast(sa.extract("epoch", runs.c.finished - runs.c.started), sa.Float)
