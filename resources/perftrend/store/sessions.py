"""Sessions of users who signed in at a provider, so that they can be listed and ended.

The store contains a hash of the random text in the cookie, not the text. Deleting a row ends its session.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from perftrend.store.activity import record
from perftrend.store.connection import read_transaction, suspend_commit_count, write_transaction
from perftrend.store.schema import sessions


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session of a person."""

    key: str
    """The hash of the text in its cookie."""
    person: str
    groups: tuple[str, ...]
    begun: datetime
    used: datetime
    """Time of the last use, to the minute."""
    browser: str
    """Kind of the browser that signed in."""
    address: str
    """Address that the person signed in from."""


class StoredSessions:
    """The sessions of a store; safe for several processes at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(self, session: StoredSession, *, begun_before: datetime, used_before: datetime) -> None:
        """Store a session, and delete those that have expired.

        :param begun_before: sessions that began before that time have expired.
        :param used_before: sessions that were last used before that time have expired.
        """
        row = {name: getattr(session, name) for name in StoredSession.__slots__}
        expired = (sessions.c.begun < begun_before) | (sessions.c.used < used_before)
        with write_transaction(self._engine) as connection:
            connection.execute(sa.delete(sessions).where(expired))
            connection.execute(sa.insert(sessions), row | {"groups": list(session.groups)})

    def find(self, key: str) -> StoredSession | None:
        """Return a session, also if it has expired; None if it does not exist or was ended."""
        with read_transaction(self._engine) as connection:
            row = connection.execute(sa.select(sessions).where(sessions.c.key == key)).mappings().first()
        return _session(row) if row else None

    def all(self, *, person: str | None = None) -> list[StoredSession]:
        """Return the sessions, the last used first.

        :param person: only those of a person.
        """
        condition = sa.true() if person is None else sessions.c.person == person
        query = sa.select(sessions).where(condition).order_by(sessions.c.used.desc(), sessions.c.key)
        with read_transaction(self._engine) as connection:
            return [_session(row) for row in connection.execute(query).mappings()]

    def note_use(self, key: str, moment: datetime) -> None:
        """Store when a session was used; the content of pages does not depend on it."""
        change = sa.update(sessions).where(sessions.c.key == key).values(used=moment)
        with suspend_commit_count(), write_transaction(self._engine) as connection:
            connection.execute(change)

    def end(self, keys: Sequence[str], *, user: str | None = None) -> int:
        """End sessions, and return how many of them existed.

        :param user: the user to record in the activity log; None to record nothing.
        """
        chosen = sessions.c.key.in_(keys)
        with write_transaction(self._engine) as connection:
            query = sa.select(sessions).where(chosen).order_by(sessions.c.key).with_for_update()
            ended = [_session(row) for row in connection.execute(query).mappings()]
            connection.execute(sa.delete(sessions).where(chosen))
            for each in ended if user is not None else ():
                detail = f"{each.browser} from {each.address}, since {each.begun:%Y-%m-%d %H:%M} UTC"
                record(connection, user or "", "ended", f"session of {each.person}", detail)
        return len(ended)


def _session(row: sa.RowMapping) -> StoredSession:
    return StoredSession(**{**row, "groups": tuple(row["groups"])})
