"""Grants: roles of persons and groups on some or all testbeds, which admins change on a page.

A grant names a person, or a group as ``group:NAME``. Its scope is a testbed, a pattern of testbeds, or all of
them. A pattern is the beginning of names and ``*``, such as ``vpp-*``, and also applies to testbeds that are
added later. There is at most one grant for each person and scope.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from perftrend.errors import UsageError
from perftrend.store.activity import EditResult, record
from perftrend.store.connection import alone, read_transaction, write_transaction
from perftrend.store.schema import grants

ALL_TESTBEDS = ""
"""The scope of a grant that is not limited to a testbed."""
GROUP = "group:"
"""Prefix of the names of groups."""
_PATTERN = re.compile(r"([^*]+)\*")
_ADMIN = "admin"
_SUBJECT = "grants"


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
