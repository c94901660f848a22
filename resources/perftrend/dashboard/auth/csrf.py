"""Protection against cross-site request forgery (CSRF): forms that another site sends with a user's cookies.

Each form contains a token that only pages of the dashboard have. It is bound to the session, or to the user
of a proxy, so a token of one session is invalid in another. Browsers also send the origin of a request; a
request from another origin is rejected, whatever its token. Requests with an API token are exempt, since
browsers never add API tokens by themselves.

Source: "Cross-Site Request Forgery Prevention Cheat Sheet" (OWASP), signed double-submit token and Fetch
Metadata.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from urllib.parse import urlsplit

from starlette.requests import Request

from perftrend.dashboard.auth.signing import Signer

FIELD = "csrf"
HEADER = "x-csrf-token"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""Methods that change nothing."""
_FORM = "application/x-www-form-urlencoded"
"""The content type of forms; multipart forms are not supported, since no endpoint accepts files."""


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
