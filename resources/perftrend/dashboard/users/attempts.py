"""Attempts to sign in: what has to be the same when somebody comes back from the provider.

The browser keeps it in a signed cookie for a few minutes. ``state`` shows that who comes back is who went,
``nonce`` that the provider's answer is to this attempt, ``verifier`` (PKCE) that the code was not given to
somebody else. An attempt is spent by its first return.
"""

from __future__ import annotations

import hmac
import re
import secrets
import time
from dataclasses import astuple, dataclass
from datetime import UTC, datetime, timedelta

from perftrend.dashboard.users.seals import Clock, Seals
from perftrend.store.tokens import Spent

LIFE_S = 600
"""How long signing in may take."""
HOME = "/"
_LONGEST_PLACE = 1500
"""Letters of the page that somebody wants: with the rest it has to fit into a cookie."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Somebody who was sent to the provider."""

    state: str
    nonce: str
    verifier: str
    place: str
    """The page that they want, a path of ours."""


class Attempts:
    """The attempts to sign in to a dashboard."""

    def __init__(self, secret: str, spent: Spent, *, clock: Clock = time.time) -> None:
        self._seals = Seals(secret, "attempt to sign in", clock=clock)
        self._spent = spent
        self._clock = clock

    def begin(self, place: str) -> Attempt:
        """Return a new attempt of somebody who wants a page."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        return Attempt(state, nonce, verifier, path_of_ours(place))

    def cookie(self, attempt: Attempt) -> str:
        """Return the value of the cookie that keeps an attempt."""
        return self._seals.seal(astuple(attempt))

    def come_back(self, cookie: str, state: str) -> Attempt | None:
        """Return the attempt that somebody comes back from, once only.

        :returns: None if it is nobody's, somebody else's, too old or spent.
        """
        content = self._seals.open(cookie, maximum_age_s=LIFE_S)
        if content is None:
            return None
        attempt = Attempt(*content)
        if not hmac.compare_digest(attempt.state.encode(), state.encode()):
            return None
        now = datetime.fromtimestamp(self._clock(), UTC)
        until = now + timedelta(seconds=2 * LIFE_S)
        return attempt if self._spent.spend(f"attempt {attempt.state}", now, until) else None


def path_of_ours(place: str) -> str:
    r"""Return a place if it is a path on this site, otherwise the first page.

    A browser takes ``//host``, ``/\\host`` and what has control characters in it for another site.
    """
    is_ours = re.fullmatch(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]*", place) and len(place) <= _LONGEST_PLACE
    return place if is_ours else HOME
