"""Requests of comments and their states, so that no request is started or answered twice.

A request goes from ``seen`` to one of the other states, each step in its own transaction::

    seen ── refused                        it is invalid or not permitted
      │──── limited ─ ignored              its author exceeds the limit: notified once, then ignored
      │──── told                           a dry run
      └──── claimed ─ failed               Jenkins does not accept it
               │───── started              Jenkins has it
               └───── waiting ─ running ─ ended      this machine runs it
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from enum import StrEnum

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from perftrend.store.connection import read_transaction, write_transaction
from perftrend.store.schema import marks, requests
from perftrend.trigger import FORMER_JOBS


class RequestState(StrEnum):
    """The state of a request."""

    SEEN = "seen"
    REFUSED = "refused"
    LIMITED = "limited"
    IGNORED = "ignored"
    DRY_RUN = "told"
    CLAIMED = "claimed"
    FAILED = "failed"
    STARTED = "started"
    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


JOBS = (
    RequestState.CLAIMED,
    RequestState.STARTED,
    RequestState.WAITING,
    RequestState.RUNNING,
    RequestState.ENDED,
)
"""States of requests that have started a job, or are about to."""


@dataclass(frozen=True, slots=True)
class Request:
    """A line of a comment that requests a job, valid or not."""

    key: str
    """Unique among all requests."""
    change: int
    patch_set: int
    project: str
    branch: str
    revision: str
    """The commit of the patch set."""
    ref: str
    review: str
    """The identity of the review that the comment is a part of; its requests get one answer."""
    comment: str
    """The identity of the comment that is answered."""
    path: str | None
    """The file that the comment is on; None if it is the message of a review."""
    account: str
    """The account of its author."""
    asked: datetime
    place: int
    """Position among the requests of the review, from 0."""
    line: str
    """The request; if it is invalid, as it was typed."""
    reason: str = ""
    """The error in it; empty if the grammar accepts it."""
    right_form: str = ""
    job: str = ""
    """Empty if it is not known."""
    testbed: str = ""
    state: RequestState = RequestState.SEEN
    decided: datetime | None = None
    """When it left the state ``seen``."""
    told: str = ""
    """The text of the answer: how many tests there are, or why there are none."""
    link: str = ""
    """The address of the build."""
    exit_code: int | None = None
    answered: bool = False


_NAMES = tuple(field.name for field in fields(Request))


class Requests:
    """The requests of a store; safe for several processes at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(self, candidates: Iterable[Request]) -> list[Request]:
        """Store requests, and return the new ones; known ones are not changed."""
        wanted = list(candidates)
        if not wanted:
            return []
        with write_transaction(self._engine) as connection:
            known = _find_keys(connection, [each.key for each in wanted])
            new = {each.key: each for each in reversed(wanted) if each.key not in known}
            if new:
                connection.execute(sa.insert(requests), [asdict(each) for each in new.values()])
        return list(reversed(new.values()))

    def list_open(self) -> list[Request]:
        """Return the requests that are still to be decided, started or answered, the oldest first."""
        states = (RequestState.SEEN, RequestState.CLAIMED)
        return self._select(requests.c.state.in_(states) | requests.c.answered.is_(False))

    def in_states(self, *states: RequestState) -> list[Request]:
        """Return the requests in some states, the oldest first."""
        return self._select(requests.c.state.in_(states))

    def of(self, change: int, account: str, since: datetime) -> list[Request]:
        """Return the requests of an account on a change that were decided at or after a moment."""
        return self._select(
            (requests.c.change == change) & (requests.c.account == account) & (requests.c.decided >= since)
        )

    def has_review(self, review: str) -> bool:
        """Return whether a review has a request."""
        with read_transaction(self._engine) as connection:
            query = sa.select(requests.c.key).where(requests.c.review == review).limit(1)
            return connection.execute(query).first() is not None

    def change(self, request: Request, **columns: object) -> bool:
        """Change columns of a request, unless its state has changed meanwhile.

        :param request: as it was read.
        :returns: whether it was changed.
        """
        same = (requests.c.key == request.key) & (requests.c.state == request.state)
        with write_transaction(self._engine) as connection:
            return connection.execute(sa.update(requests).where(same).values(**columns)).rowcount == 1

    def mark_answered(self, keys: Sequence[str]) -> None:
        """Mark requests as answered."""
        with write_transaction(self._engine) as connection:
            connection.execute(sa.update(requests).where(requests.c.key.in_(keys)).values(answered=True))

    def mark(self, name: str) -> datetime | None:
        """Return the moment up to which something has been read; None if it never was."""
        with read_transaction(self._engine) as connection:
            return connection.execute(sa.select(marks.c.moment).where(marks.c.name == name)).scalar()

    def set_mark(self, name: str, moment: datetime) -> None:
        """Store the moment up to which something has been read."""
        with write_transaction(self._engine) as connection:
            change = sa.update(marks).where(marks.c.name == name).values(moment=moment)
            if connection.execute(change).rowcount == 0:
                connection.execute(sa.insert(marks), {"name": name, "moment": moment})

    def _select(self, condition: sa.ColumnElement[bool]) -> list[Request]:
        query = sa.select(requests).where(condition)
        query = query.order_by(requests.c.asked, requests.c.review, requests.c.place)
        with read_transaction(self._engine) as connection:
            rows = connection.execute(query).mappings().all()
        return [
            Request(
                **{
                    **{name: row[name] for name in _NAMES},
                    "state": RequestState(row["state"]),
                    "job": FORMER_JOBS.get(row["job"], row["job"]),
                }
            )
            for row in rows
        ]


def _find_keys(connection: Connection, keys: Collection[str]) -> set[str]:
    return set(connection.execute(sa.select(requests.c.key).where(requests.c.key.in_(keys))).scalars())
