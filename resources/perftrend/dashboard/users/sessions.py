"""Sessions: who has signed in, kept in a signed cookie.

The cookie holds who somebody is and when they signed in; what they may do is looked up in the settings at
each request. A session ends by its age, by idleness and by signing out. Only the last needs memory: the
store notes which sessions were signed out, until their age would end them. So reading writes nothing, each
process that has the secret can serve everybody, and another secret signs everybody out.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from perftrend.dashboard.users.roles import Person
from perftrend.dashboard.users.seals import Clock, Seals
from perftrend.store.tokens import Spent

_RENEWED_S = 60
"""A cookie that is older is replaced, so that idleness is counted anew."""


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who has signed in."""

    id: str
    person: Person
    begun: int
    """When, in seconds since 1970."""

    @property
    def bound(self) -> str:
        """What the tokens of its forms are bound to, and how the store knows it."""
        return f"session {self.id}"


class Sessions:
    """The sessions of a dashboard.

    :param life_s: how long a session lasts.
    :param idle_s: how long it lasts without a request.
    """

    def __init__(
        self, secret: str, spent: Spent, *, life_s: float, idle_s: float, clock: Clock = time.time
    ) -> None:
        self._seals = Seals(secret, "session", clock=clock)
        self._spent = spent
        self._life_s = life_s
        self._idle_s = idle_s
        self._clock = clock

    def begin(self, person: Person) -> Session:
        """Return a new session: its id was never seen before, so nobody can have planted it."""
        return Session(secrets.token_urlsafe(16), person, int(self._clock()))

    def cookie(self, session: Session) -> str:
        """Return the value of a cookie that is as fresh as can be."""
        person = session.person
        return self._seals.seal([session.id, person.name, person.groups, session.begun])

    def find(self, cookie: str) -> Session | None:
        """Return the session of a cookie; None if it is forged, too old, idle or signed out.

        :raises StoreError: if the store cannot tell.
        """
        content = self._seals.open(cookie, maximum_age_s=self._idle_s)
        if content is None:
            return None
        name, person, groups, begun = content
        session = Session(name, Person(person, tuple(groups)), begun)
        if self._clock() - begun > self._life_s or self._spent.has(session.bound):
            return None
        return session

    def renewed(self, cookie: str, session: Session) -> str | None:
        """Return a fresher cookie, where it is time for that."""
        is_fresh = self._seals.open(cookie, maximum_age_s=min(_RENEWED_S, self._idle_s / 2)) is not None
        return None if is_fresh else self.cookie(session)

    def end(self, session: Session) -> None:
        """Sign out: the cookie and all copies of it are worth nothing from now on."""
        until = session.begun + self._life_s + 1
        self._spent.spend(session.bound, self._now(), datetime.fromtimestamp(until, UTC))

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)
