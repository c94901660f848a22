"""Sessions of signed-in users: a random text in a cookie, and a row in the store.

A session ends by its age, by idleness, by signing out, or when its user or an admin ends it. Each request
reads the row, so the end takes effect at the next request, in all processes. Roles are not part of a session;
they are read in each request, too.
"""

from __future__ import annotations

import hashlib
import logging
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from perftrend.dashboard.auth.csrf import Clock
from perftrend.dashboard.auth.roles import Person
from perftrend.errors import StoreError
from perftrend.store.access import StoredSession, StoredSessions
from perftrend.store.connection import patience

LOG = logging.getLogger(__name__)

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
