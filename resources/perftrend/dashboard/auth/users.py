"""Users: their roles, on all testbeds or on some of them, and the sessions of those who have signed in.

A provider or a proxy supplies a name and groups. The settings list the admins and editors among them, and
grants in the store add to these lists. Groups are written ``group:NAME`` there, so a user with the name of a
group does not get its role.

A session is a random text in a cookie, and a row in the store. It ends by its age, by idleness, by signing
out, or when its user or an admin ends it. Each request reads the row, so the end takes effect at the next
request, in all processes. Roles are not part of a session; they are read in each request, too.
"""

from __future__ import annotations

import hashlib
import logging
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Literal, Self

from perftrend.dashboard.auth.csrf import Clock
from perftrend.errors import StoreError
from perftrend.settings import DashboardSettings
from perftrend.store.access import ALL_TESTBEDS, GROUP, Grant, StoredSession, StoredSessions, covers
from perftrend.store.connection import patience

LOG = logging.getLogger(__name__)

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

_FORM = re.compile(r"[A-Za-z0-9_-]{43}")
_NOTED_S = 60.0
"""Minimum interval between updates of the last use, so that not every request writes."""
_PATIENCE_S = 0.5
"""How long a request waits to store the last use; a later request stores it otherwise."""
_BROWSERS = (
    ("Edg", "Edge"), ("OPR/", "Opera"), ("SamsungBrowser", "Samsung Internet"), ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"), ("Chrome/", "Chrome"), ("CriOS/", "Chrome"), ("Safari/", "Safari"),
)  # fmt: skip
"""Parts of User-Agent headers, the more specific first: browsers name others, too, for compatibility."""
_SYSTEMS = (
    ("Android", "Android"), ("iPhone", "iPhone"), ("iPad", "iPad"), ("Windows", "Windows"),
    ("Mac OS X", "macOS"), ("CrOS", "ChromeOS"), ("Linux", "Linux"),
)  # fmt: skip


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


@dataclass(frozen=True, slots=True)
class UserSession:
    """A session of a signed-in user."""

    cookie: str = field(repr=False)
    """The random text that identifies the browser."""
    person: Person
    begun: datetime

    @property
    def key(self) -> str:
        """Identifies the session in the store and on pages, which do not contain the cookie."""
        return _hash(self.cookie)

    @property
    def bound(self) -> str:
        """The text that CSRF tokens are bound to."""
        return f"session {self.key}"


class Sessions:
    """The sessions of a dashboard.

    :param life_s: maximum age of a session.
    :param idle_s: maximum time between two requests.
    """

    def __init__(
        self, stored: StoredSessions, *, life_s: float, idle_s: float, clock: Clock = time.time
    ) -> None:
        self._stored = stored
        self._life = timedelta(seconds=life_s)
        self._idle = timedelta(seconds=idle_s)
        self._noted = timedelta(seconds=min(_NOTED_S, idle_s / 2))
        self._clock = clock
        self._next_note = datetime.fromtimestamp(0, UTC)

    def begin(self, person: Person, *, browser: str = "", address: str = "") -> UserSession:
        """Begin a session; its new random text prevents session fixation.

        :param browser: the kind of browser.
        :param address: the address of the client.
        """
        now = self._now()
        session = UserSession(secrets.token_urlsafe(32), person, now)
        self._stored.add(
            StoredSession(session.key, person.name, person.groups, now, now, browser[:64], address[:64]),
            begun_before=now - self._life,
            used_before=now - self._idle,
        )
        return session

    def find(self, cookie: str) -> UserSession | None:
        """Return the session of a cookie, and store that it is used; None if it is unknown, over or ended.

        :raises StoreError: if the store cannot be read.
        """
        stored = self._stored.find(_hash(cookie)) if _FORM.fullmatch(cookie) else None
        if stored is None or not self._is_valid(stored):
            return None
        now = self._now()
        if now - stored.used > self._noted and now >= self._next_note:
            self._note_use(stored, now)
        return UserSession(cookie, Person(stored.person, stored.groups), stored.begun)

    def find_all(self, *, person: str | None = None) -> Sequence[StoredSession]:
        """Return the sessions that have not ended, the last used first.

        :param person: only those of a person.
        """
        return [each for each in self._stored.all(person=person) if self._is_valid(each)]

    def end(self, keys: Sequence[str], *, user: str | None = None) -> int:
        """End sessions: their cookies and all copies become invalid.

        :param user: the user to record in the activity log; None to record nothing.
        :returns: how many of them had not ended yet.
        """
        return self._stored.end(keys, user=user)

    def _is_valid(self, session: StoredSession) -> bool:
        now = self._now()
        return now - session.begun <= self._life and now - session.used <= self._idle

    def _note_use(self, session: StoredSession, now: datetime) -> None:
        try:
            with patience(_PATIENCE_S):
                self._stored.note_use(session.key, now)
        except StoreError as error:
            # Requests that only read should still succeed, and not wait each time.
            self._next_note = now + self._noted
            LOG.warning("the use of a session of %s is not stored: %s", session.person, error)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)


def browser_of(user_agent: str) -> str:
    """Return the kind of a browser, such as ``Firefox on Linux``; never a text that the client chose."""
    browser = next((name for part, name in _BROWSERS if part in user_agent), "another program")
    system = next((name for part, name in _SYSTEMS if part in user_agent), "")
    return f"{browser} on {system}" if system else browser


def _hash(cookie: str) -> str:
    return hashlib.sha256(cookie.encode()).hexdigest()
