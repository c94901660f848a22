"""Attempts to sign in: the state of a login, from the redirect to the provider until the return.

A signed cookie holds it for :data:`LIFE_S`. ``state`` proves that the same browser began the login, ``nonce``
that the provider's response belongs to this attempt, and ``verifier`` (PKCE) that the code was not issued to
another client. An attempt can be used once.
"""

from __future__ import annotations

import hmac
import re
import secrets
import time
from dataclasses import astuple, dataclass
from datetime import UTC, datetime, timedelta

from perftrend.dashboard.auth.signing import Clock, Signer
from perftrend.store.tokens import Spent

LIFE_S = 600
"""Maximum duration of a sign-in."""
HOME = "/"
_LONGEST_PLACE = 1500
"""Maximum length of the target path, which has to fit into a cookie with the other fields."""


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """A login that has been redirected to the provider."""

    state: str
    nonce: str
    verifier: str
    place: str
    """Path on this site to redirect to afterwards."""


class Attempts:
    """The attempts to sign in to a dashboard."""

    def __init__(self, secret: str, spent: Spent, *, clock: Clock = time.time) -> None:
        self._seals = Signer(secret, "attempt to sign in", clock=clock)
        self._spent = spent
        self._clock = clock

    def begin(self, place: str) -> LoginAttempt:
        """Return a new attempt that leads to a page."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        return LoginAttempt(state, nonce, verifier, path_of_ours(place))

    def cookie(self, attempt: LoginAttempt) -> str:
        """Return the value of the cookie that stores an attempt."""
        return self._seals.seal(astuple(attempt))

    def come_back(self, cookie: str, state: str) -> LoginAttempt | None:
        """Return the attempt of a cookie, and mark it as used.

        :returns: None if the cookie is invalid or expired, the state differs, or the attempt was used before.
        """
        content = self._seals.open(cookie, maximum_age_s=LIFE_S)
        if content is None:
            return None
        attempt = LoginAttempt(*content)
        if not hmac.compare_digest(attempt.state.encode(), state.encode()):
            return None
        now = datetime.fromtimestamp(self._clock(), UTC)
        until = now + timedelta(seconds=2 * LIFE_S)
        return attempt if self._spent.spend(f"attempt {attempt.state}", now, until) else None


def path_of_ours(place: str) -> str:
    r"""Return a target if it is a path on this site, otherwise the home page.

    Browsers treat ``//host``, ``/\\host`` and paths with control characters as another site.
    """
    is_ours = re.fullmatch(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]*", place) and len(place) <= _LONGEST_PLACE
    return place if is_ours else HOME
