"""Cross-site request forgery: a page of somebody else lets a browser send a form to us, with our cookies.

Each form carries a token that only our pages have. It is bound to who somebody is and to their session, so
that a token from one session is worth nothing in another. Browsers also tell where a request comes from; one
that comes from elsewhere is refused, whatever token it has. API tokens need none of this: no browser adds
them by itself.

Source: "Cross-Site Request Forgery Prevention Cheat Sheet" (OWASP), signed double-submit token and Fetch
Metadata.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from urllib.parse import urlsplit

from starlette.requests import Request

from perftrend.dashboard.users.seals import Seals

FIELD = "csrf"
HEADER = "x-csrf-token"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""Methods that change nothing."""
_FORM = "application/x-www-form-urlencoded"
"""What our forms are sent as; the other kind could bring files, which nobody wants here."""


class Forgery:
    """Makes and checks the tokens of forms.

    :param life_s: how long a token is taken.
    :param url: how people reach the dashboard; None: at the host that they ask for.
    """

    def __init__(self, secret: str, *, life_s: float, url: str | None) -> None:
        self._seals = Seals(secret, "form")
        self.life_s = life_s
        self._origin = _origin(url) if url else None

    def token(self, bound: str) -> str:
        """Return what a form has to carry.

        :param bound: whose form it is: a session, or a user.
        """
        # Another text each time: what is compressed and guessed bit by bit has to stay the same.
        return self._seals.seal([_hash(bound), secrets.token_hex(4)])

    def is_ours(self, token: str, bound: str) -> bool:
        """Tell whether a form has a token that was made for the same session."""
        content = self._seals.open(token, maximum_age_s=self.life_s)
        return content is not None and hmac.compare_digest(content[0], _hash(bound))

    def is_from_here(self, request: Request) -> bool:
        """Tell whether a request comes from a page of ours, as far as the browser tells."""
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return False
        origin = request.headers.get("origin")
        if origin is None:
            return True
        scheme, host = _origin(origin)
        return (scheme, host) == self._origin or (
            bool(host) and host == request.headers.get("host", "").lower()
        )


async def submitted_token(request: Request) -> str:
    """Return the token that a request carries, in a header or in its form; empty if there is none."""
    if request.method in SAFE_METHODS:
        return ""
    told = request.headers.get(HEADER)
    if told is not None or not request.headers.get("content-type", "").lower().startswith(_FORM):
        return told or ""
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
