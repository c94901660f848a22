"""Deletion of rows that are older than the retention settings allow, and of duplicates of details.

Runs and the values and samples of their results are never deleted. Unfinished rows are never deleted either:
requests that are open or unanswered, and messages that are still to be sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from perftrend.store.connection import read_transaction, write_transaction
from perftrend.store.requests import RequestState
from perftrend.store.schema import activity, details, marks, outbox, patch_tests, requests, runs, short_urls

_BATCH = 200
"""Keys whose rows one transaction deletes, so that other writers do not wait for long."""
_LISTENER_OVERLAP = timedelta(days=1)
"""Longer than what the listener reads again before its mark."""
_CLOSED = (
    RequestState.REFUSED,
    RequestState.LIMITED,
    RequestState.IGNORED,
    RequestState.DRY_RUN,
    RequestState.FAILED,
    RequestState.ADMITTED,
    RequestState.STARTED,
    RequestState.ENDED,
    RequestState.CANCELLED,
    RequestState.DONE,
)


class RetentionKind(StrEnum):
    """A kind of rows that can be deleted because of their age."""

    DETAILS = "details"
    PATCH_TESTS = "patch_tests"
    ACTIVITY = "activity"
    REQUESTS = "requests"
    SHORT_URLS = "short_urls"
    OUTBOX = "outbox"


@dataclass(frozen=True, slots=True)
class _ExpiredRows:
    """Rows that may be deleted."""

    key: sa.Column[int] | sa.Column[str]
    """Rows with the same key are deleted together."""
    condition: sa.ColumnElement[bool]

    @property
    def table(self) -> sa.Table:
        return self.key.table


class Retention:
    """Rows of a store by their age; safe for several processes at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def count(self, kind: RetentionKind, before: datetime) -> int:
        """Return the number of rows that :meth:`delete` would delete."""
        with read_transaction(self._engine) as connection:
            expired = _select_expired(connection, kind, before)
            query = sa.select(sa.func.count()).select_from(expired.table).where(expired.condition)
            return connection.execute(query).scalar() or 0

    def delete(self, kind: RetentionKind, before: datetime) -> int:
        """Delete rows of a kind that are older than a moment, and return their number.

        After a kill, the next call deletes the rest.
        """
        deleted = 0
        while True:
            with write_transaction(self._engine) as connection:
                expired = _select_expired(connection, kind, before)
                query = sa.select(expired.key).where(expired.condition).distinct().limit(_BATCH)
                keys = connection.execute(query).scalars().all()
                # The condition again: meanwhile another process may have changed a row.
                statement = sa.delete(expired.table).where(expired.key.in_(keys), expired.condition)
                deleted += connection.execute(statement).rowcount if keys else 0
            if not keys:
                return deleted

    def count_duplicates(self) -> int:
        """Return the number of duplicates that :meth:`delete_duplicates` would replace."""
        return sum(len(self._duplicates(run_id)) for run_id in self._runs_with_details())

    def delete_duplicates(self) -> int:
        """Replace details that another result of the run has by a reference, and return their number.

        Stores have such rows from versions that did not write references. The results stay as they are.
        """
        deleted = 0
        for run_id in self._runs_with_details():
            if not (found := self._duplicates(run_id)):
                continue
            row = (details.c.run_id == run_id) & (details.c.trace_id == sa.bindparam("duplicate"))
            statement = sa.update(details).where(row).values(details=sa.bindparam("original"))
            with write_transaction(self._engine) as connection:
                connection.execute(
                    statement, [{"duplicate": each, "original": first} for each, first in found.items()]
                )
            deleted += len(found)
        return deleted

    def _runs_with_details(self) -> Sequence[int]:
        with read_transaction(self._engine) as connection:
            return connection.execute(sa.select(details.c.run_id).distinct()).scalars().all()

    def _duplicates(self, run_id: int) -> dict[int, int]:
        """Return the traces of duplicates in a run, and the traces whose rows they are equal to."""
        text = sa.cast(details.c.details, sa.Text)
        query = sa.select(details.c.trace_id, text).where(details.c.run_id == run_id)
        with read_transaction(self._engine) as connection:
            rows = connection.execute(query.order_by(details.c.trace_id)).all()
        if not all(each.startswith("{") for _, each in rows):
            return {}  # a run with references was stored without duplicates
        first: dict[str, int] = {}
        originals = {trace: first.setdefault(each, trace) for trace, each in rows}
        return {trace: original for trace, original in originals.items() if trace != original}


def _select_expired(connection: Connection, kind: RetentionKind, before: datetime) -> _ExpiredRows:
    match kind:
        case RetentionKind.DETAILS:
            old_runs = sa.select(runs.c.id).where(runs.c.finished < before)
            return _ExpiredRows(details.c.run_id, details.c.run_id.in_(old_runs))
        case RetentionKind.PATCH_TESTS:
            # The database deletes their traces with them.
            return _ExpiredRows(patch_tests.c.id, patch_tests.c.updated < before)
        case RetentionKind.ACTIVITY:
            return _ExpiredRows(activity.c.number, activity.c.moment < before)
        case RetentionKind.REQUESTS:
            return _ExpiredRows(requests.c.review, _request_expiry_condition(connection, before))
        case RetentionKind.SHORT_URLS:
            return _ExpiredRows(short_urls.c.key, short_urls.c.made < before)
        case RetentionKind.OUTBOX:
            return _ExpiredRows(outbox.c.id, outbox.c.sent < before)


def _request_expiry_condition(connection: Connection, before: datetime) -> sa.ColumnElement[bool]:
    """Return the condition of requests that are closed, together with all others of their reviews.

    A request that the listener reads again must still be known, or its job would be started a second time.
    The listener reads comments from a little before its mark on, by Gerrit's clock.
    """
    age = sa.func.coalesce(requests.c.decided, requests.c.asked, type_=requests.c.asked.type)
    is_closed = requests.c.state.in_(_CLOSED) & requests.c.answered & (age < before)
    oldest_mark = sa.select(sa.func.min(marks.c.moment, type_=marks.c.moment.type))
    mark = connection.execute(oldest_mark.where(marks.c.name.startswith("comments "))).scalar()
    if mark is not None:
        is_closed &= requests.c.asked < mark - _LISTENER_OVERLAP
    unfinished = sa.select(requests.c.review).where(sa.not_(is_closed))
    return requests.c.review.not_in(unfinished)
