"""The outbox: messages that a transaction creates and that are sent after it.

A sender claims a message for some minutes before it sends it. If the sender is killed before it marks the
message as sent, the message becomes due again and is sent again with the same key. So no message is lost, and
receivers can detect duplicates by the key.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine, RowMapping

from perftrend.store.activity import record
from perftrend.store.alerts.item_rows import subject_of
from perftrend.store.claims import claim_row
from perftrend.store.connection import read_transaction, write_transaction
from perftrend.store.schema import outbox

MOST_ATTEMPTS = 36
"""Number of attempts after which a message is given up; with the waits between them, four and a half days."""
LEASE = timedelta(minutes=10)
"""Time for which a sender claims a message."""

LOG_USER = "alerts"
"""The user of sent messages in the activity log."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message to be sent."""

    identity: int
    key: str
    """The same in every attempt to send it."""
    item: int
    alert: int
    action: str
    target: str = field(repr=False)
    payload: Mapping[str, Any] = field(hash=False)
    made: datetime
    attempts: int
    """Number of claims, including this one."""
    sent: datetime | None = None
    error: str = ""
    """Why the last attempt failed."""


class Outbox:
    """The outbox of a store; safe for several processes at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def claim(
        self, *, now: datetime, most_attempts: int, away: Collection[tuple[str, str | None]] = ()
    ) -> Message | None:
        """Claim the oldest message that is due; None if there is none.

        :param most_attempts: messages with this number of claims are given up.
        :param away: action and target, None for any, of messages that are not tried now.
        """
        due = outbox.c.sent.is_(None) & (outbox.c.due <= now) & (outbox.c.attempts < most_attempts)
        for action, target in away:
            there = sa.true() if target is None else outbox.c.target == target
            due &= sa.not_((outbox.c.action == action) & there)
        row = claim_row(
            self._engine,
            outbox,
            due,
            first=outbox.c.id,
            change=lambda row: {"due": now + LEASE, "attempts": row["attempts"] + 1},
        )
        return _message(row) if row else None

    def mark(self, message: Message, *, now: datetime) -> None:
        """Mark a message as sent, and record it in the activity log."""
        with write_transaction(self._engine) as connection:
            _change(connection, message, sent=now, error="")
            record(
                connection,
                LOG_USER,
                "sent",
                subject_of(message.item),
                f"{message.action} of alert {message.alert}",
            )

    def release(self, message: Message, error: str, *, due: datetime) -> None:
        """Store why a message was not sent, and when to try again."""
        with write_transaction(self._engine) as connection:
            _change(connection, message, error=error, due=due)

    def of(self, item: int) -> list[Message]:
        """Return the messages about an item, the oldest first."""
        query = sa.select(outbox).where(outbox.c.item_id == item).order_by(outbox.c.id)
        with read_transaction(self._engine) as connection:
            return [_message(row) for row in connection.execute(query).mappings()]

    def count_unsent(self, *, most_attempts: int | None = None) -> int:
        """Return the number of messages that are still to be sent.

        :param most_attempts: messages with this number of claims are given up.
        """
        query = sa.select(sa.func.count()).select_from(outbox).where(outbox.c.sent.is_(None))
        if most_attempts is not None:
            query = query.where(outbox.c.attempts < most_attempts)
        with read_transaction(self._engine) as connection:
            return connection.execute(query).scalar() or 0


def _change(connection: Connection, message: Message, **columns: object) -> None:
    connection.execute(sa.update(outbox).where(outbox.c.id == message.identity).values(**columns))


def _message(row: Mapping[str, Any] | RowMapping) -> Message:
    names = ("key", "action", "target", "payload", "made", "attempts", "sent", "error")
    return Message(
        identity=row["id"], item=row["item_id"], alert=row["alert_id"], **{name: row[name] for name in names}
    )
