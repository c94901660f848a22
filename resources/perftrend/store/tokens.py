"""API tokens, and keys that can be used only once.

Only the hash of a token is stored. A token is 256 random bits, so an unsalted hash of it reveals nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Engine
from sqlalchemy.exc import IntegrityError

from perftrend.store.activity import record
from perftrend.store.connection import read_transaction, savepoint, write_transaction
from perftrend.store.schema import spent, tokens


@dataclass(frozen=True, slots=True)
class Token:
    """An API token of a job."""

    key: str
    """Its public part, which identifies it."""
    hash: str
    """The hash of the whole token, as hexadecimal digits."""
    name: str
    """Its purpose."""
    role: str
    owner: str
    """The user who created it."""
    made: datetime
    expires: datetime
    used: datetime | None = None
    """When it was last used, to the minute."""
    revoked: datetime | None = None
    revoked_by: str = ""
    groups: tuple[str, ...] | None = None
    """The groups of the owner, whose permissions limit those of the token; None: nothing limits them."""
    parent: str | None = None
    """The key of the token that created it; None: its owner is a person."""


class Tokens:
    """The API tokens of a store; safe for several processes at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(self, token: Token) -> None:
        """Store a token, and record its owner in the activity log."""
        row = {name: getattr(token, name) for name in Token.__slots__}
        row["groups"] = None if token.groups is None else list(token.groups)
        with write_transaction(self._engine) as connection:
            connection.execute(sa.insert(tokens), row)
            detail = f"{token.role}, until {token.expires:%Y-%m-%d}"
            record(connection, token.owner, "made", f"token {token.name}", detail)

    def find(self, key: str) -> Token | None:
        """Return a token, also if it is expired or revoked; None if it does not exist."""
        with read_transaction(self._engine) as connection:
            row = connection.execute(sa.select(tokens).where(tokens.c.key == key)).mappings().first()
        return _token(row) if row else None

    def all(self) -> list[Token]:
        """Return all tokens, the newest first."""
        query = sa.select(tokens).order_by(tokens.c.made.desc(), tokens.c.key)
        with read_transaction(self._engine) as connection:
            return [_token(row) for row in connection.execute(query).mappings()]

    def note_use(self, key: str, moment: datetime) -> None:
        """Store when a token was used."""
        with write_transaction(self._engine) as connection:
            connection.execute(sa.update(tokens).where(tokens.c.key == key).values(used=moment))

    def update_groups(self, owner: str, groups: Sequence[str]) -> None:
        """Store the current groups of a person in the tokens that the person created."""
        own = (tokens.c.owner == owner) & tokens.c.parent.is_(None) & tokens.c.revoked.is_(None)
        with write_transaction(self._engine) as connection:
            connection.execute(sa.update(tokens).where(own).values(groups=list(groups)))

    def revoke(self, key: str, user: str, moment: datetime) -> bool:
        """Revoke a token and those that it created, and record the user in the activity log.

        :returns: False if it does not exist or is revoked already; then nothing is changed.
        """
        change = sa.update(tokens).where(tokens.c.revoked.is_(None)).values(revoked=moment, revoked_by=user)
        with write_transaction(self._engine) as connection:
            is_done = False
            wanted = [key]
            while wanted:
                one = wanted.pop()
                name = connection.execute(sa.select(tokens.c.name).where(tokens.c.key == one)).scalar()
                if connection.execute(change.where(tokens.c.key == one)).rowcount:
                    record(connection, user, "revoked", f"token {name}")
                    is_done = True
                    created = sa.select(tokens.c.key).where(tokens.c.parent == one).order_by(tokens.c.key)
                    wanted += connection.execute(created).scalars()
            return is_done


class Spent:
    """Keys that cannot be used again, such as those of sign-in attempts."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def spend(self, key: str, now: datetime, until: datetime) -> bool:
        """Mark a key as spent, and delete keys that have expired.

        :param until: when the key expires.
        :returns: False if it was spent before.
        """
        with write_transaction(self._engine) as connection:
            connection.execute(sa.delete(spent).where(spent.c.until < now))
            if connection.execute(sa.select(spent.c.key).where(spent.c.key == key)).first():
                return False
            try:
                with savepoint(connection):
                    connection.execute(sa.insert(spent), {"key": key, "until": until})
            except IntegrityError:
                # Another process was first.
                return False
            return True

    def has(self, key: str) -> bool:
        """Return whether a key is spent."""
        with read_transaction(self._engine) as connection:
            return connection.execute(sa.select(spent.c.key).where(spent.c.key == key)).first() is not None


def _token(row: sa.RowMapping) -> Token:
    return Token(**{**row, "groups": None if row["groups"] is None else tuple(row["groups"])})
