"""Protection against cross-site request forgery (CSRF): forms that another site sends with a user's cookies.

Each form contains a signed token that only pages of the dashboard have. It contains the time of signing, as
the cookies of logins do, and is bound to the session, or to the user of a proxy, so a token of one session is
invalid in another. Browsers also send the origin of a request; a request from another origin is rejected,
whatever its token. Requests with an API token are exempt, since browsers never add API tokens by themselves.

Source: "Cross-Site Request Forgery Prevention Cheat Sheet" (OWASP), signed double-submit token and Fetch
Metadata.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from itsdangerous import BadData, URLSafeSerializer
from starlette.requests import Request

Clock = Callable[[], float]
"""Returns the seconds since 1970."""

LONGEST = 4096
"""Maximum length of a text that is verified; browsers do not store longer cookies."""
_SKEW_S = 60
"""Tolerated difference between the clocks of processes."""

FIELD = "csrf"
HEADER = "x-csrf-token"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""Methods that change nothing."""
_FORM = "application/x-www-form-urlencoded"
"""The content type of forms; multipart forms are not supported, since no endpoint accepts files."""


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


class CsrfProtection:
    """Issues and verifies CSRF tokens.

    :param life_s: lifetime of a token.
    :param url: public URL of the dashboard; None: origins are only compared with the Host header.
    """

    def __init__(self, secret: str, *, life_s: float, url: str | None) -> None:
        self._seals = Signer(secret, "form")
        self.life_s = life_s
        self._origin = _origin(url) if url else None

    def token(self, bound: str) -> str:
        """Return a new token for a form.

        :param bound: the session or the user that the token is bound to.
        """
        # The token differs each time, so it cannot be guessed from the size of compressed pages (BREACH).
        return self._seals.seal([_hash(bound), secrets.token_hex(4)])

    def is_ours(self, token: str, bound: str) -> bool:
        """Return whether a token was issued for the same session."""
        content = self._seals.open(token, maximum_age_s=self.life_s)
        return content is not None and hmac.compare_digest(content[0], _hash(bound))

    def is_from_here(self, request: Request) -> bool:
        """Return whether a request comes from a page of the dashboard, according to the browser's headers."""
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return False
        origin = request.headers.get("origin")
        if origin is None:
            return True
        scheme, host = _origin(origin)
        return (scheme, host) == self._origin or (
            bool(host) and host == request.headers.get("host", "").lower()
        )


async def read_csrf_token(request: Request) -> str:
    """Return the token in the header or the form of a request; empty if there is none."""
    if request.method in SAFE_METHODS:
        return ""
    header = request.headers.get(HEADER)
    if header is not None or not request.headers.get("content-type", "").lower().startswith(_FORM):
        return header or ""
    field = (await request.form()).get(FIELD)
    return field if isinstance(field, str) else ""


def _origin(url: str) -> tuple[str, str]:
    try:
        parts = urlsplit(url)
    except ValueError:
        return "", ""
    return parts.scheme.lower(), parts.netloc.lower()


def _hash(bound: str) -> str:
    return hashlib.sha256(bound.encode()).hexdigest()[:32]
