"""Users and their roles.

A provider or a proxy supplies a name and groups; the settings list the admins and editors among them. Groups
are written ``group:NAME`` there, so a user with the name of a group does not get its role.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Self

from perftrend.settings import DashboardSettings
from perftrend.store.grants import GROUP

MAXIMUM_NAME = 200
"""Maximum length of a name."""

TOKEN = "token "  # noqa: S105 - not a secret, but a prefix of names
_RESERVED = (TOKEN, GROUP)


class Role(IntEnum):
    """The permissions of a user or a job; each role includes those before it."""

    VIEWER = 1
    """Reads everything."""
    EDITOR = 2
    """Triages, annotates, makes shortcuts and alerts."""
    ADMIN = 3
    """Creates and revokes API tokens."""

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
    """The user of a request, with a role."""

    name: str
    role: Role
    signed_in: bool = True
    """Whether the user is authenticated."""


ANONYMOUS = User("nobody", Role.VIEWER, signed_in=False)
"""The anonymous user."""


@dataclass(frozen=True, slots=True)
class Person:
    """Name and groups of a user, as supplied by a provider or a proxy."""

    name: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Roles:
    """The users and groups that are admins or editors."""

    admins: frozenset[str]
    editors: frozenset[str]

    @classmethod
    def of(cls, settings: DashboardSettings) -> Self:
        """Return the roles of the settings."""
        return cls(frozenset(settings.admins), frozenset(settings.editors))

    def user(self, person: Person) -> User:
        """Return a person as a user with the highest role of the name and the groups."""
        names = {person.name, *(GROUP + group for group in person.groups)}
        if names & self.admins:
            return User(person.name, Role.ADMIN)
        return User(person.name, Role.EDITOR if names & self.editors else Role.VIEWER)


def is_name(text: str) -> bool:
    """Return whether a text is a valid name of a user: printable on one line, and not reserved."""
    return (
        0 < len(text) <= MAXIMUM_NAME
        and text.isprintable()
        and text == text.strip()
        and not text.startswith(_RESERVED)
        and text != ANONYMOUS.name
    )
