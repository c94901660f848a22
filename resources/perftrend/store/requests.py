"""Requests of comments and their states, so that no request is started or answered twice.

A request goes from ``seen`` to one of the other states, each step in its own transaction::

    seen ── refused                        it is invalid or not permitted
      │──── limited ─ ignored              its author exceeds the limit: notified once, then ignored
      │──── told                           a dry run
      │──── claimed ─ failed               Jenkins does not accept it
      │        │───── started ─ ended      Jenkins has it
      │        └───── waiting ─ running ─ ended      this machine runs it
      └──── done                           it ended other requests

A job that Gerrit Trigger has started enters its own request: ``admitted`` ─ ``ended``, or ``refused``.

A request of a page of the dashboard is on no change, and nothing is replied to it. Its job stores its
progress and its result in it.

A request that is ended by another one goes from any state before ``ended`` to ``cancelling``, and when
nothing of its job is queued or running any longer, to ``cancelled``, or to ``ended`` if its job had ended by
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from perftrend.errors import EXIT_PASS, EXIT_REGRESSION, StoreError
from perftrend.store.connection import alone, read_transaction, write_transaction
from perftrend.store.schema import marks, requests
from perftrend.trigger import CANCEL, FORMER_JOBS

T = TypeVar("T")


class RequestState(StrEnum):
    """The state of a request."""

    SEEN = "seen"
    REFUSED = "refused"
    LIMITED = "limited"
    IGNORED = "ignored"
    DRY_RUN = "told"
    CLAIMED = "claimed"
    ADMITTED = "admitted"
    FAILED = "failed"
    STARTED = "started"
    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    DONE = "done"


JOBS = (
    RequestState.CLAIMED,
    RequestState.ADMITTED,
    RequestState.STARTED,
    RequestState.WAITING,
    RequestState.RUNNING,
    RequestState.ENDED,
    RequestState.CANCELLING,
    RequestState.CANCELLED,
)
"""States of requests that have started a job, or are about to."""
LOCAL = (RequestState.CLAIMED, RequestState.WAITING, RequestState.RUNNING)
"""States of jobs whose end is always recorded."""
IN_JENKINS = (RequestState.STARTED, RequestState.ADMITTED)
"""States of jobs whose end is not recorded if Jenkins or the job was killed."""
_LONGEST_JOB = timedelta(weeks=2)

ACTIVE = (
    RequestState.SEEN,
    RequestState.CLAIMED,
    RequestState.STARTED,
    RequestState.WAITING,
    RequestState.RUNNING,
)
"""States of requests whose job the listener may still start, or may have queued or running."""

_QUEUED = (*ACTIVE[1:], RequestState.CANCELLING, RequestState.ADMITTED)
"""States of requests whose job may be queued or running."""


SERVED = "requests"
"""Name of the mark of when a listener last served the requests."""
PAGE = "page:"
"""Beginning of the account of a request that was made on a page of the dashboard."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a job: a line of a comment, valid or not, or one that was made on a page."""

    key: str
    """Unique among all requests."""
    change: int
    """Number in Gerrit; 0 for a request of a page."""
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
    estimated_s: float | None = None
    """The estimated usual duration of the job; None if it is not known."""
    began: datetime | None = None
    """When its job left the queue; None if it has not, or it is not known."""
    duration_s: float | None = None
    """How long its job took; None if it has not ended, or it is not known."""
    cancelled_by: str = ""
    """The key of the request that ended it; empty if there is none."""
    author: str = ""
    """The name of its author, which is no e-mail address; empty if it is not known."""
    item: int | None = None
    """The item of triage that it was made for; None if there is none."""
    progress: str = ""
    """What its job does now; empty if that is not known."""
    result: Mapping[str, Any] | None = field(default=None, hash=False)
    """What its job has found (:mod:`perftrend.execution.job_request`); None if that is not known."""

    @property
    def is_of_page(self) -> bool:
        """Whether it was made on a page of the dashboard, where the role of its author was checked."""
        return self.account.startswith(PAGE)


@dataclass(frozen=True, slots=True)
class JobTime:
    """How long the jobs of a person took."""

    account: str
    author: str
    duration_s: float


_NAMES = tuple(each.name for each in fields(Request))


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
        states = (RequestState.SEEN, RequestState.CLAIMED, RequestState.CANCELLING)
        return self._select(requests.c.state.in_(states) | requests.c.answered.is_(False))

    def in_states(self, *states: RequestState) -> list[Request]:
        """Return the requests in some states, the oldest first."""
        return self._select(requests.c.state.in_(states))

    def of(self, account: str, since: datetime) -> list[Request]:
        """Return the requests of an account that were decided at or after a moment."""
        return self._select((requests.c.account == account) & (requests.c.decided >= since))

    def with_keys(self, keys: Collection[str]) -> dict[str, Request]:
        """Return the requests with some keys, by key."""
        return {each.key: each for each in self._select(requests.c.key.in_(keys))}

    def claim(
        self,
        request: Request,
        claimed: Request,
        wrong: Callable[[Sequence[Request]], T | None],
        *,
        since: datetime,
    ) -> T | None:
        """Replace a request, or add it, unless a check of the other requests fails.

        The check and the change are one transaction, one at a time, so that two requests at once do not both
        get what is left of a limit.

        :param request: as it was read, or a new one.
        :param claimed: what replaces it.
        :param wrong: the check; it gets the requests of the account, on the change and on the testbed that
            were decided since a moment, and those that are not finished on the testbed.
        :returns: what the check returns; the request was only replaced if that is None.
        :raises StoreError: if its state has changed meanwhile.
        """
        same = (requests.c.change == request.change) | (requests.c.account == request.account)
        here = requests.c.testbed == request.testbed
        unfinished = here & requests.c.state.in_(LOCAL)
        relevant = ((same | here) & (requests.c.decided >= since)) | unfinished
        with write_transaction(self._engine) as connection:
            alone(connection, "requests")
            if (found := wrong(_select(connection, relevant))) is not None:
                return found
            as_read = (requests.c.key == request.key) & (requests.c.state == request.state)
            row = asdict(claimed)
            if connection.execute(sa.update(requests).where(as_read).values(**row)).rowcount == 0:
                if _find_keys(connection, [request.key]):
                    raise StoreError(f"request {request.key} is also processed by another process")
                connection.execute(sa.insert(requests), row)
            return None

    def active_changes(self) -> set[int]:
        """Return the changes with requests whose job may still be started, or may be queued or running."""
        query = sa.select(requests.c.change).where(_is_active()).distinct()
        with read_transaction(self._engine) as connection:
            return set(connection.execute(query).scalars())

    def active_on(self, change: int) -> list[Request]:
        """Return the requests of a change whose job may still be started, or may be queued or running."""
        return self._select((requests.c.change == change) & _is_active())

    def cancel(self, by: Request, targets: Iterable[Request]) -> None:
        """Store that a request ends others, in one transaction; those that have changed meanwhile are left.

        :param by: with its new state; it is added if it is not known.
        :param targets: as they were read.
        """
        with write_transaction(self._engine) as connection:
            change = sa.update(requests).where(requests.c.key == by.key).values(**asdict(by))
            if connection.execute(change).rowcount == 0:
                connection.execute(sa.insert(requests), asdict(by))
            for each in targets:
                columns = {"state": RequestState.CANCELLING, "cancelled_by": by.key}
                connection.execute(sa.update(requests).where(_is_same(each)).values(**columns))

    def cancelled_by(self, by: Request) -> list[Request]:
        """Return the requests that a request has ended."""
        return self._select((requests.c.change == by.change) & (requests.c.cancelled_by == by.key))

    def list_queue(self, limit: int) -> list[Request]:
        """Return the requests whose jobs are queued or running, the oldest first, up to a limit."""
        return self._select(requests.c.state.in_(_QUEUED), limit=limit)

    def job_times(self, since: datetime, until: datetime) -> list[JobTime]:
        """Return how long the jobs took that began in a period, by person, without those that run."""
        total = sa.func.sum(requests.c.duration_s)
        query = sa.select(requests.c.account, sa.func.max(requests.c.author), total)
        query = query.where(
            requests.c.began >= since, requests.c.began < until, requests.c.duration_s.is_not(None)
        )
        query = query.group_by(requests.c.account).order_by(total.desc(), requests.c.account)
        with read_transaction(self._engine) as connection:
            return [
                JobTime(account, author, float(took)) for account, author, took in connection.execute(query)
            ]

    def durations_s(self, job: str, testbed: str, *, newest: int) -> list[float]:
        """Return how long the newest jobs of a kind took on a testbed that ended with a result."""
        # Jenkins reports no exit code.
        has_result = requests.c.exit_code.in_((EXIT_PASS, EXIT_REGRESSION)) | requests.c.result.is_not(None)
        query = sa.select(requests.c.duration_s).where(
            requests.c.job == job,
            requests.c.testbed == testbed,
            requests.c.began.is_not(None),
            requests.c.duration_s.is_not(None),
            has_result,
        )
        with read_transaction(self._engine) as connection:
            return list(connection.execute(query.order_by(requests.c.began.desc()).limit(newest)).scalars())

    def end_old(self, now: datetime) -> None:
        """Record that the jobs that were started in Jenkins two weeks before a moment have ended."""
        is_old = requests.c.state.in_(IN_JENKINS) & (requests.c.decided < now - _LONGEST_JOB)
        with write_transaction(self._engine) as connection:
            connection.execute(sa.update(requests).where(is_old).values(state=RequestState.ENDED))

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
        with write_transaction(self._engine) as connection:
            change = sa.update(requests).where(_is_same(request)).values(**columns)
            return connection.execute(change).rowcount == 1

    def of_item(self, item: int) -> list[Request]:
        """Return the requests that were made for an item, the newest first."""
        return self._select(requests.c.item == item)[::-1]

    def with_results(self, job: str, since: datetime) -> list[Request]:
        """Return the requests of a job that were made since a moment and have a result, the oldest first."""
        has_result = requests.c.result.is_not(None)
        return self._select((requests.c.job == job) & (requests.c.asked >= since) & has_result)

    def record_progress(self, key: str, text: str) -> None:
        """Store what the job of a request does now."""
        self._record(key, progress=text)

    def record_result(self, key: str, result: Mapping[str, Any]) -> None:
        """Store what the job of a request has found."""
        self._record(key, result=dict(result), progress="")

    def _record(self, key: str, **columns: object) -> None:
        with write_transaction(self._engine) as connection:
            connection.execute(sa.update(requests).where(requests.c.key == key).values(**columns))

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

    def _select(self, condition: sa.ColumnElement[bool], *, limit: int | None = None) -> list[Request]:
        with read_transaction(self._engine) as connection:
            return _select(connection, condition, limit=limit)


def _select(
    connection: Connection, condition: sa.ColumnElement[bool], *, limit: int | None = None
) -> list[Request]:
    query = sa.select(requests).where(condition).limit(limit)
    query = query.order_by(requests.c.asked, requests.c.review, requests.c.place)
    return [
        Request(
            **{
                **{name: row[name] for name in _NAMES},
                "state": RequestState(row["state"]),
                "job": FORMER_JOBS.get(row["job"], row["job"]),
            }
        )
        for row in connection.execute(query).mappings()
    ]


def _is_active() -> sa.ColumnElement[bool]:
    return requests.c.state.in_(ACTIVE) & requests.c.job.not_in(("", CANCEL))


def _is_same(request: Request) -> sa.ColumnElement[bool]:
    return (requests.c.key == request.key) & (requests.c.state == request.state)


def _find_keys(connection: Connection, keys: Collection[str]) -> set[str]:
    return set(connection.execute(sa.select(requests.c.key).where(requests.c.key.in_(keys))).scalars())
