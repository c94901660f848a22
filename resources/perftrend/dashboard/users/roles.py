"""Who somebody is, and what they may do.

A provider or a proxy tells a name and groups; the settings tell which of them are admins and editors. A
group is written ``group:NAME`` there, so that nobody gets a role by taking the name of a group.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

from perftrend.settings import DashboardSettings

MAXIMUM_NAME = 200
"""Letters that a name may have."""

TOKEN = "token "  # noqa: S105 - no secret, the begin of a name
GROUP = "group:"
_RESERVED = (TOKEN, GROUP)


class Role(IntEnum):
    """What a person or a job may do; each role may do what the ones before it may."""

    VIEWER = 1
    """Reads everything."""
    EDITOR = 2
    """Triages, annotates, makes shortcuts and alerts."""
    ADMIN = 3
    """Gives API tokens to jobs and takes them back."""

    @property
    def title(self) -> str:
        """Its name in pages, in settings and in the store."""
        return self.name.lower()

    @classmethod
    def of(cls, title: str) -> Role:
        """Return the role of a name.

        :raises ValueError: if there is no such role.
        """
        for role in cls:
            if role.title == title:
                return role
        raise ValueError(f"no role is named {title!r}; known are {', '.join(role.title for role in cls)}")


@dataclass(frozen=True, slots=True)
class User:
    """Who makes a request."""

    name: str
    role: Role
    signed_in: bool = True
    """False for those who have not said who they are."""


NOBODY = User("nobody", Role.VIEWER, signed_in=False)
"""Somebody who has not said who they are."""


@dataclass(frozen=True, slots=True)
class Person:
    """Who somebody is, as a provider or a proxy tells it."""

    name: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Roles:
    """Who has which role."""

    admins: frozenset[str]
    editors: frozenset[str]

    @classmethod
    def of(cls, settings: DashboardSettings) -> Self:
        """Read the lists of the settings."""
        return cls(frozenset(settings.admins), frozenset(settings.editors))

    def user(self, person: Person) -> User:
        """Return a person with the greatest role that the lists give."""
        names = {person.name, *(GROUP + group for group in person.groups)}
        if names & self.admins:
            return User(person.name, Role.ADMIN)
        return User(person.name, Role.EDITOR if names & self.editors else Role.VIEWER)

    def known(self, groups: Iterable[str]) -> tuple[str, ...]:
        """Return those of a person's groups that make a difference: a cookie holds no thousands."""
        named = self.admins | self.editors
        return tuple(sorted(group for group in set(groups) if GROUP + group in named))


def is_name(text: str) -> bool:
    """Tell whether somebody may be called so: it can be shown in one line, and is nothing else's name."""
    return (
        0 < len(text) <= MAXIMUM_NAME
        and text.isprintable()
        and text == text.strip()
        and not text.startswith(_RESERVED)
        and text != NOBODY.name
    )
