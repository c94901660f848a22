"""What lets jobs and people in: API tokens, and what may be used once only.

Of a token only a hash is kept. A token is 256 random bits, so a plain hash of it tells nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Engine
from sqlalchemy.exc import IntegrityError

from perftrend.store.activity import record
from perftrend.store.connection import entering, reading, writing
from perftrend.store.schema import spent, tokens


@dataclass(frozen=True, slots=True)
class Token:
    """What lets a job in."""

    key: str
    """The part of it that is no secret, by which it is known."""
    hash: str
    """Of the whole of it, as hexadecimal digits."""
    name: str
    """What it is for."""
    role: str
    owner: str
    """Who made it."""
    made: datetime
    expires: datetime
    used: datetime | None = None
    """When it was used last, to the minute."""
    revoked: datetime | None = None
    revoked_by: str = ""


class Tokens:
    """The API tokens of a store; safe for several processes at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(self, token: Token) -> None:
        """Enter a token, and in the activity log who made it."""
        row = {name: getattr(token, name) for name in Token.__slots__}
        with writing(self._engine) as connection:
            connection.execute(sa.insert(tokens), row)
            detail = f"{token.role}, until {token.expires:%Y-%m-%d}"
            record(connection, token.owner, "made", f"token {token.name}", detail)

    def find(self, key: str) -> Token | None:
        """Return a token, whatever became of it; None: there is none."""
        with reading(self._engine) as connection:
            row = connection.execute(sa.select(tokens).where(tokens.c.key == key)).mappings().first()
        return Token(**row) if row else None

    def all(self) -> list[Token]:
        """Return all tokens, the newest first."""
        query = sa.select(tokens).order_by(tokens.c.made.desc(), tokens.c.key)
        with reading(self._engine) as connection:
            return [Token(**row) for row in connection.execute(query).mappings()]

    def note_use(self, key: str, moment: datetime) -> None:
        """Note that a token was used."""
        with writing(self._engine) as connection:
            connection.execute(sa.update(tokens).where(tokens.c.key == key).values(used=moment))

    def revoke(self, key: str, user: str, moment: datetime) -> bool:
        """Make a token useless, and enter in the activity log who did.

        :returns: False if there is none, or somebody was faster; then nothing is changed.
        """
        living = (tokens.c.key == key) & tokens.c.revoked.is_(None)
        with writing(self._engine) as connection:
            name = connection.execute(sa.select(tokens.c.name).where(tokens.c.key == key)).scalar()
            change = sa.update(tokens).where(living).values(revoked=moment, revoked_by=user)
            if connection.execute(change).rowcount == 0:
                return False
            record(connection, user, "revoked", f"token {name}")
            return True


class Spent:
    """What may be used once only: attempts to sign in, and sessions that were signed out."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def spend(self, key: str, now: datetime, until: datetime) -> bool:
        """Note that something is spent; what nobody would take any more in any case is forgotten.

        :param until: when it would be refused by its age alone.
        :returns: False if it was spent before.
        """
        with writing(self._engine) as connection:
            connection.execute(sa.delete(spent).where(spent.c.until < now))
            if connection.execute(sa.select(spent.c.key).where(spent.c.key == key)).first():
                return False
            try:
                with entering(connection):
                    connection.execute(sa.insert(spent), {"key": key, "until": until})
            except IntegrityError:
                # Another process was first.
                return False
            return True

    def has(self, key: str) -> bool:
        """Tell whether something is spent."""
        with reading(self._engine) as connection:
            return connection.execute(sa.select(spent.c.key).where(spent.c.key == key)).first() is not None
