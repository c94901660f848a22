"""Edits of users: their results, and the activity log.

An edit is made from a version, so that none overwrites the edit of another user. It is recorded in the log
in the same transaction. Entries are added to the log, never changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from perftrend.store.connection import read_transaction, write_transaction
from perftrend.store.schema import activity

LONGEST_SUBJECT = 255

_Entry = TypeVar("_Entry")


@dataclass(frozen=True, slots=True)
class ActivityEntry:
    """An action of a user."""

    number: int
    """Increases from one entry to the next."""
    moment: datetime
    user: str
    action: str
    """A verb in the past tense, such as ``annotated``."""
    subject: str
    """The object of the action, such as ``commit 1a2b3c4`` or ``cluster 17``."""
    detail: str
    """Description of the change."""


def record(connection: Connection, user: str, action: str, subject: str, detail: str = "") -> None:
    """Record an action, in the transaction that performs it."""
    row = {
        "moment": datetime.now(UTC),
        "user": user,
        "action": action,
        # PostgreSQL would reject a longer one, and with it the whole transaction.
        "subject": subject[:LONGEST_SUBJECT],
        "detail": detail,
    }
    connection.execute(sa.insert(activity), row)


class Activity:
    """The activity log of a store; safe for several processes at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def record(self, user: str, action: str, subject: str, detail: str = "") -> None:
        """Record an action, in its own transaction."""
        with write_transaction(self._engine) as connection:
            record(connection, user, action, subject, detail)

    def newest(
        self, limit: int, subject: str | None = None, *, user: str | None = None, before: int | None = None
    ) -> list[ActivityEntry]:
        """Return the newest entries, the newest first.

        :param subject: only those of a subject.
        :param user: only those of a user.
        :param before: only those that are older than the entry with this number.
        """
        query = sa.select(activity).order_by(activity.c.number.desc()).limit(limit)
        if subject is not None:
            query = query.where(activity.c.subject == subject)
        if user is not None:
            query = query.where(activity.c.user == user)
        if before is not None:
            query = query.where(activity.c.number < before)
        with read_transaction(self._engine) as connection:
            return [ActivityEntry(**row) for row in connection.execute(query).mappings()]


@dataclass(frozen=True, slots=True)
class EditResult(Generic[_Entry]):
    """The result of an edit of one entry, such as an alert or an annotation."""

    is_done: bool
    now: _Entry | None
    """The entry as it is now, or the deleted one; None if it does not exist."""


@dataclass(frozen=True, slots=True)
class BulkEditResult(Generic[_Entry]):
    """The result of an edit that changes all the entries that it names, or none."""

    now: tuple[_Entry, ...] = ()
    """The entries as they are now."""
    refused: tuple[_Entry, ...] = ()
    """Those that another user has changed meanwhile, as they are now."""
    gone: tuple[int, ...] = ()
    """Those that do not exist."""

    @property
    def is_done(self) -> bool:
        """Whether the entries are now as the edit states."""
        return not (self.refused or self.gone)
