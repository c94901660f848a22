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

MOST_PER_PERSON = 100
_AT_ONCE = 1000
"""Values in one condition of a query."""


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
        """Store a session, and delete those that have expired or are too many for one person.

        :param begun_before: sessions that began before that time have expired.
        :param used_before: sessions that were last used before that time have expired.
        """
        row = {name: getattr(session, name) for name in StoredSession.__slots__}
        expired = (sessions.c.begun < begun_before) | (sessions.c.used < used_before)
        own = sa.select(sessions.c.key).where(sessions.c.person == session.person)
        with write_transaction(self._engine) as connection:
            connection.execute(sa.delete(sessions).where(expired))
            # Several sign-ins at once may leave a few more; the next one deletes them.
            surplus = own.order_by(sessions.c.used.desc()).offset(MOST_PER_PERSON - 1)
            keys = list(connection.execute(surplus).scalars())
            connection.execute(sa.delete(sessions).where(sessions.c.key.in_(keys)))
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
        ended: list[StoredSession] = []
        with write_transaction(self._engine) as connection:
            for start in range(0, len(keys), _AT_ONCE):
                chosen = sessions.c.key.in_(keys[start : start + _AT_ONCE])
                query = sa.select(sessions).where(chosen).order_by(sessions.c.key).with_for_update()
                ended += [_session(row) for row in connection.execute(query).mappings()]
                connection.execute(sa.delete(sessions).where(chosen))
            for each in ended if user is not None else ():
                detail = f"{each.browser} from {each.address}, since {each.begun:%Y-%m-%d %H:%M} UTC"
                record(connection, user or "", "ended", f"session of {each.person}", detail)
        return len(ended)


def _session(row: sa.RowMapping) -> StoredSession:
    return StoredSession(**{**row, "groups": tuple(row["groups"])})
