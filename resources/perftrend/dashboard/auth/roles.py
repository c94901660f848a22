"""Users and their roles, on all testbeds or on some of them.

A provider or a proxy supplies a name and groups. The settings list the admins and editors among them, and
grants in the store add to these lists. Groups are written ``group:NAME`` there, so a user with the name of a
group does not get its role.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Literal, Self

from perftrend.settings import DashboardSettings
from perftrend.store.access import ALL_TESTBEDS, GROUP, Grant, covers

MAXIMUM_NAME = 200
"""Maximum length of a name."""

RoleName = Literal["viewer", "editor", "admin"]
"""The title of a :class:`Role`, as models have it."""

TOKEN = "token "  # noqa: S105 - not a secret, but a prefix of names
OPERATOR = "command line"
"""The owner of tokens that are created without the dashboard."""
LOCAL = "local user"
"""The name of every user of this machine, if nobody can sign in."""
_RESERVED = (TOKEN, GROUP)


class Role(IntEnum):
    """The permissions of a user or a job; each role includes those before it."""

    VIEWER = 1
    """Reads everything."""
    EDITOR = 2
    """Triages, annotates, makes shortcuts and alerts."""
    ADMIN = 3
    """Grants roles, creates and revokes API tokens, and ends sessions."""

    @property
    def title(self) -> str:
        """Name of the role in pages, settings and the store."""
        return self.name.lower()

    @classmethod
    def of(cls, title: str) -> Role:
        """Return the role with a name.

        :raises ValueError: if the role does not exist.
        """
        for role in cls:
            if role.title == title:
                return role
        raise ValueError(f"no role is named {title!r}; known are {', '.join(role.title for role in cls)}")


@dataclass(frozen=True, slots=True)
class User:
    """The user of a request, with the roles."""

    name: str
    role: Role
    """The role on all testbeds."""
    signed_in: bool = True
    """Whether the user is authenticated."""
    testbeds: tuple[tuple[str, Role], ...] = ()
    """Testbeds and patterns of testbeds on which the user has a higher role, sorted by name."""

    @property
    def highest(self) -> Role:
        """The highest role that the user has on any testbed."""
        return max([self.role, *(role for _, role in self.testbeds)])

    def role_on(self, testbed: str) -> Role:
        """Return the role on a testbed, or on all that a pattern matches; on all of them if it is empty."""
        return max([self.role, *(role for scope, role in self.testbeds if covers(scope, testbed))])

    def may_edit(self, testbed: str = ALL_TESTBEDS) -> bool:
        """Return whether the user may change the data of a testbed; of all of them if the name is empty."""
        return self.role_on(testbed) >= Role.EDITOR

    def may_administer(self, testbed: str = ALL_TESTBEDS) -> bool:
        """Return whether the user may grant roles on a testbed; on all of them if the name is empty."""
        return self.role_on(testbed) >= Role.ADMIN

    def limit_to(self, other: User) -> User:
        """Return the user with those roles only that another one has, too."""
        role = min(self.role, other.role)
        # If two scopes have a testbed in common, one covers the other. So what both users have is the smaller
        # one, and no scope is missing here.
        scopes = sorted({scope for scope, _ in self.testbeds + other.testbeds})
        roles = ((scope, min(self.role_on(scope), other.role_on(scope))) for scope in scopes)
        return replace(self, role=role, testbeds=tuple(each for each in roles if each[1] > role))


ANONYMOUS = User("nobody", Role.VIEWER, signed_in=False)
"""The anonymous user."""
LOCAL_EDITOR = User(LOCAL, Role.EDITOR, signed_in=False)
"""A user of the machine on which only its own users reach the dashboard."""


@dataclass(frozen=True, slots=True)
class Person:
    """Name and groups of a user, as supplied by a provider or a proxy."""

    name: str
    groups: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The name, and the groups as ``group:NAME``: what settings and grants contain."""
        return frozenset({self.name, *(GROUP + group for group in self.groups)})


@dataclass(frozen=True, slots=True)
class Roles:
    """The users and groups that are admins or editors."""

    admins: frozenset[str]
    editors: frozenset[str]

    @classmethod
    def of(cls, settings: DashboardSettings) -> Self:
        """Return the roles of the settings."""
        return cls(frozenset(settings.admins), frozenset(settings.editors))

    def user(self, person: Person, grants: Sequence[Grant] = ()) -> User:
        """Return a person as a user with the highest roles of the name and the groups.

        :param grants: those of the person.
        """
        roles = {grant.testbed: Role.VIEWER for grant in grants} | {ALL_TESTBEDS: self._role(person)}
        for grant in grants:
            roles[grant.testbed] = max(roles[grant.testbed], Role.of(grant.role))
        everywhere = roles.pop(ALL_TESTBEDS)
        higher = tuple(sorted((testbed, role) for testbed, role in roles.items() if role > everywhere))
        return User(person.name, everywhere, testbeds=higher)

    def _role(self, person: Person) -> Role:
        """Return the role that the settings give to a person."""
        if person.names & self.admins:
            return Role.ADMIN
        return Role.EDITOR if person.names & self.editors else Role.VIEWER


def is_name(text: str) -> bool:
    """Return whether a text is a valid name of a user: printable on one line, and not reserved."""
    return (
        0 < len(text) <= MAXIMUM_NAME
        and text.isprintable()
        and text == text.strip()
        and not text.startswith(_RESERVED)
        and text not in {ANONYMOUS.name, OPERATOR, LOCAL}
    )
