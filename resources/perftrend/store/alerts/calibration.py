"""What became of the changes that were reported, and what it took to find them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from perftrend.store.connection import read_transaction
from perftrend.store.schema import findings, items, requests, runs

LEVELS = (0.99, 0.95, 0.0)
"""Smallest confidences of the groups of changes, in descending order."""


@dataclass(frozen=True, slots=True)
class FindingOutcomes:
    """Changes of a testbed that were reported at the same moment, and that have the same fate."""

    testbed: str
    found: datetime
    """When they were reported."""
    gone: datetime | None
    """When they were no longer found; None: they still are."""
    level: float
    """The smallest confidence of their group, one of :data:`LEVELS`."""
    status: str
    """What a person says of their item, such as ``ignored``."""
    count: int


@dataclass(frozen=True, slots=True)
class RunTimes:
    """The runs of a testbed in a period."""

    testbed: str
    starts: Sequence[datetime]
    """Ascending."""
    duration_s: float
    """The time that these runs took, and the jobs that were requested there."""


class Calibration:
    """The outcomes of a store's reports; safe for several processes at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def reported(self, since: datetime) -> list[FindingOutcomes]:
        """Return the regressions and progressions that were reported since a moment, the oldest first."""
        level = sa.case(
            *((findings.c.confidence >= each, each) for each in LEVELS[:-1]), else_=LEVELS[-1]
        ).label("level")
        columns = (items.c.testbed, findings.c.found, findings.c.gone, items.c.status)
        # Grouped outside, since PostgreSQL does not recognise an expression with parameters again.
        each_change = (
            sa.select(*columns, level)
            .join(items, items.c.id == findings.c.item_id)
            .where(
                findings.c.found >= since,
                findings.c.kind.in_(("regression", "progression")),
                findings.c.confidence.is_not(None),
            )
            .subquery()
        )
        query = sa.select(each_change, sa.func.count().label("number")).group_by(*each_change.c)
        with read_transaction(self._engine) as connection:
            return [
                FindingOutcomes(row.testbed, row.found, row.gone, row.level, row.status, row.number)
                for row in connection.execute(query.order_by(each_change.c.found))
            ]

    def times(self, since: datetime) -> list[RunTimes]:
        """Return the nightly runs since a moment, and the time that testbeds were in use, by testbed."""
        nights = sa.select(runs.c.testbed, runs.c.started, runs.c.finished)
        nights = nights.where(runs.c.started >= since, runs.c.experiment == "").order_by(runs.c.started)
        took = sa.select(requests.c.testbed, sa.func.sum(requests.c.duration_s))
        took = took.where(requests.c.began >= since, requests.c.duration_s.is_not(None))
        starts: dict[str, list[datetime]] = {}
        durations_s: dict[str, float] = {}
        with read_transaction(self._engine) as connection:
            for testbed, started, finished in connection.execute(nights):
                starts.setdefault(testbed, []).append(started)
                durations_s[testbed] = durations_s.get(testbed, 0.0) + (finished - started).total_seconds()
            for testbed, duration_s in connection.execute(took.group_by(requests.c.testbed)):
                durations_s[testbed] = durations_s.get(testbed, 0.0) + float(duration_s)
        return [
            RunTimes(testbed, starts.get(testbed, ()), durations_s[testbed])
            for testbed in sorted(durations_s)
        ]
