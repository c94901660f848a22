"""Who may do what on the dashboard: grants of roles, API tokens, and sessions of users who signed in.

A grant names a person, or a group as ``group:NAME``. Its scope is a testbed, a pattern of testbeds, or all of
them. A pattern is the beginning of names and ``*``, such as ``vpp-*``, and also applies to testbeds that are
added later. There is at most one grant for each person and scope.

Only the hash of a token is stored. A token is 256 random bits, so an unsalted hash of it reveals nothing. The
store also has the keys that can be used only once.

A session is stored as a hash of the random text in its cookie, not the text. Deleting a row ends it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import IntegrityError

from perftrend.errors import UsageError
from perftrend.store.activity import EditResult, record
from perftrend.store.connection import (
    alone,
    read_transaction,
    savepoint,
    suspend_commit_count,
    write_transaction,
)
from perftrend.store.schema import grants, sessions, spent, tokens

MOST_PER_PERSON = 100
_AT_ONCE = 1000
"""Values in one condition of a query."""

ALL_TESTBEDS = ""
"""The scope of a grant that is not limited to a testbed."""
GROUP = "group:"
"""Prefix of the names of groups."""
_PATTERN = re.compile(r"([^*]+)\*")
_ADMIN = "admin"
_SUBJECT = "grants"


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


@dataclass(frozen=True, slots=True)
class Grant:
    """A role of a person or a group."""

    identity: int
    person: str
    """A name, or ``group:NAME``."""
    testbed: str
    """A testbed or a pattern; :data:`ALL_TESTBEDS` if it is not limited."""
    role: str
    granted: datetime
    granted_by: str
    """The user who granted or last changed it."""
    version: int

    @property
    def subject(self) -> str:
        """Its name in the activity log."""
        return subject_of(self.person)

    @property
    def description(self) -> str:
        """The role and the scope in words."""
        return f"{self.role} on {self.testbed or 'all testbeds'}"


class Grants:
    """The grants of a store; safe for several processes at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def all(self) -> list[Grant]:
        """Return all grants, by person and testbed."""
        with read_transaction(self._engine) as connection:
            return _select(connection, sa.true())

    def of(self, names: Collection[str]) -> list[Grant]:
        """Return the grants of a person.

        :param names: the name of the person, and the groups as ``group:NAME``.
        """
        # A person may be in more groups than a query can have parameters, but few groups have grants.
        own = grants.c.person.in_([name for name in names if not name.startswith(GROUP)])
        with read_transaction(self._engine) as connection:
            found = _select(connection, own | grants.c.person.startswith(GROUP, autoescape=True))
        return [each for each in found if each.person in names]

    def find(self, identity: int) -> Grant | None:
        """Return a grant; None if it does not exist."""
        with read_transaction(self._engine) as connection:
            return _find(connection, identity)

    def add(self, person: str, testbed: str, role: str, *, user: str) -> Grant:
        """Grant a role, and record it in the activity log.

        :raises UsageError: if the person already has a grant with that scope.
        """
        row = {
            "person": person, "testbed": testbed, "role": role, "granted": datetime.now(UTC),
            "granted_by": user, "version": 1,
        }  # fmt: skip
        here = (grants.c.person == person) & (grants.c.testbed == testbed)
        with write_transaction(self._engine) as connection:
            alone(connection, _SUBJECT)
            for present in _select(connection, here):
                raise UsageError(f"{person} is already {present.description}; change that grant")
            connection.execute(sa.insert(grants), row)
            [added] = _select(connection, here)
            record(connection, user, "granted", added.subject, added.description)
        return added

    def edit(
        self, identity: int, role: str, *, version: int, user: str, is_last_admin_allowed: bool
    ) -> EditResult[Grant]:
        """Change the role of a grant, unless it has been changed since.

        :param version: version of the grant that the edit was made from.
        :param is_last_admin_allowed: as in :meth:`remove`.
        :raises UsageError: as in :meth:`remove`.
        """
        with write_transaction(self._engine) as connection:
            alone(connection, _SUBJECT)
            before = _find(connection, identity)
            if before is None or before.version != version:
                return EditResult(is_done=False, now=before)
            if role == before.role:
                return EditResult(is_done=True, now=before)
            if not is_last_admin_allowed:
                _check_not_last_admin(connection, before)
            columns = {"role": role, "granted": datetime.now(UTC), "granted_by": user, "version": version + 1}
            connection.execute(sa.update(grants).where(grants.c.id == identity).values(**columns))
            now = _find(connection, identity)
            record(
                connection, user, "granted", before.subject,
                f"{role} on {before.testbed or 'all testbeds'}, was {before.role}",
            )  # fmt: skip
        return EditResult(is_done=True, now=now)

    def remove(
        self, identity: int, *, version: int, user: str, is_last_admin_allowed: bool
    ) -> EditResult[Grant]:
        """Remove a grant, unless it has been changed since.

        :param version: version of the grant that the removal was requested for.
        :param is_last_admin_allowed: whether the last grant of the role admin on all testbeds may be removed,
            because the settings name other admins.
        :raises UsageError: if it is that grant and may not be removed.
        """
        with write_transaction(self._engine) as connection:
            alone(connection, _SUBJECT)
            before = _find(connection, identity)
            if before is None or before.version != version:
                return EditResult(is_done=False, now=before)
            if not is_last_admin_allowed:
                _check_not_last_admin(connection, before)
            connection.execute(sa.delete(grants).where(grants.c.id == identity))
            record(connection, user, "withdrew", before.subject, before.description)
        return EditResult(is_done=True, now=before)


def is_pattern(scope: str) -> bool:
    """Return whether a scope is a pattern of testbeds."""
    return _PATTERN.fullmatch(scope) is not None


def covers(scope: str, testbed: str) -> bool:
    """Return whether a role on a testbed or a pattern applies to a testbed, or to all that a pattern matches.

    The name of a testbed in the store may look like a pattern. It need not be distinguished from one, because
    a role on all testbeds that the pattern matches includes that testbed.
    """
    pattern = _PATTERN.fullmatch(scope)
    return testbed.startswith(pattern[1]) if pattern else testbed == scope


def subject_of(person: str) -> str:
    """Return the name of a person's grants in the activity log."""
    return f"role of {person}"


def _check_not_last_admin(connection: Connection, grant: Grant) -> None:
    is_admin = (grants.c.role == _ADMIN) & (grants.c.testbed == ALL_TESTBEDS)
    others = sa.select(grants.c.id).where(is_admin, grants.c.id != grant.identity).limit(1)
    if (grant.role, grant.testbed) == (_ADMIN, ALL_TESTBEDS) and connection.execute(others).first() is None:
        raise UsageError(
            f"{grant.person} is the last admin; make another person admin first, or set dashboard.admins"
        )


def _find(connection: Connection, identity: int) -> Grant | None:
    return next(iter(_select(connection, grants.c.id == identity)), None)


def _select(connection: Connection, condition: sa.ColumnElement[bool]) -> list[Grant]:
    query = sa.select(grants).where(condition).order_by(grants.c.person, grants.c.testbed)
    return [
        Grant(row["id"], *(row[name] for name in Grant.__slots__[1:]))
        for row in connection.execute(query).mappings()
    ]
