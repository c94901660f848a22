"""Sessions of signed-in users, stored in signed cookies.

The cookie contains the user and the time of signing in; the role is read from the settings at each request.
A session ends by its age, by idleness or by signing out. Only signing out needs the store, which lists the
signed-out sessions until they expire. Requests therefore write nothing, each process that has the secret can
serve all users, and a new secret signs all users out.

:class:`Signer` signs these cookies, those of logins, and the tokens of forms.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from itsdangerous import BadData, URLSafeSerializer

from perftrend.dashboard.auth.roles import Person
from perftrend.store.tokens import Spent

Clock = Callable[[], float]
"""Returns the seconds since 1970."""

LONGEST = 4096
"""Maximum length of a text that is verified; browsers do not store longer cookies."""
_SKEW_S = 60
"""Tolerated difference between the clocks of processes."""
_RENEWED_S = 60
"""Age after which a cookie is replaced, which restarts the idle time."""


@dataclass(frozen=True, slots=True)
class UserSession:
    """A session of a signed-in user."""

    id: str
    person: Person
    begun: int
    """Time of signing in, in seconds since 1970."""

    @property
    def bound(self) -> str:
        """The text that CSRF tokens are bound to, also the key of the session in the store."""
        return f"session {self.id}"


class Sessions:
    """The sessions of a dashboard.

    :param life_s: maximum age of a session.
    :param idle_s: maximum time between two requests.
    """

    def __init__(
        self, secret: str, spent: Spent, *, life_s: float, idle_s: float, clock: Clock = time.time
    ) -> None:
        self._seals = Signer(secret, "session", clock=clock)
        self._spent = spent
        self._life_s = life_s
        self._idle_s = idle_s
        self._clock = clock

    def begin(self, person: Person) -> UserSession:
        """Return a new session; its new random id prevents session fixation."""
        return UserSession(secrets.token_urlsafe(16), person, int(self._clock()))

    def cookie(self, session: UserSession) -> str:
        """Return the value of a new cookie for a session."""
        person = session.person
        return self._seals.seal([session.id, person.name, person.groups, session.begun])

    def find(self, cookie: str) -> UserSession | None:
        """Return the session of a cookie; None if it is forged, too old, idle or signed out.

        :raises StoreError: if the store cannot be read.
        """
        content = self._seals.open(cookie, maximum_age_s=self._idle_s)
        if content is None:
            return None
        name, person, groups, begun = content
        session = UserSession(name, Person(person, tuple(groups)), begun)
        if self._clock() - begun > self._life_s or self._spent.has(session.bound):
            return None
        return session

    def renew_if_due(self, cookie: str, session: UserSession) -> str | None:
        """Return a new cookie if the current one is due for renewal, otherwise None."""
        is_fresh = self._seals.open(cookie, maximum_age_s=min(_RENEWED_S, self._idle_s / 2)) is not None
        return None if is_fresh else self.cookie(session)

    def end(self, session: UserSession) -> None:
        """End a session: its cookie and all copies become invalid."""
        until = session.begun + self._life_s + 1
        self._spent.spend(session.bound, self._now(), datetime.fromtimestamp(until, UTC))

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)


class Signer:
    """Signs and verifies texts of one purpose, which contain the time of signing.

    The content is signed but not encrypted. Each purpose has its own key, so that a text that was signed
    for one purpose is not accepted for another.
    """

    def __init__(self, secret: str, purpose: str, *, clock: Clock = time.time) -> None:
        self._clock = clock
        self._serializer = URLSafeSerializer(
            secret,
            salt=f"perftrend {purpose}",
            signer_kwargs={"digest_method": hashlib.sha256, "key_derivation": "hmac"},
        )

    def seal(self, content: Any) -> str:  # noqa: ANN401 - any JSON value
        """Return a text of letters, digits, ``-``, ``_`` and ``.`` that contains the content and the time."""
        return str(self._serializer.dumps([int(self._clock()), content]))

    def open(self, text: str, *, maximum_age_s: float) -> Any | None:  # noqa: ANN401 - as above
        """Return the content of a text; None if the text is expired or was not signed for this purpose."""
        if len(text) > LONGEST:
            return None
        try:
            sealed, content = self._serializer.loads(text)
        except BadData:
            return None
        return content if -_SKEW_S <= self._clock() - sealed <= maximum_age_s else None
