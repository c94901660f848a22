"""Placeholders for the parts of a cached response that differ between users.

A placeholder is an unpredictable text. Otherwise a user could write one into an annotation, for example, and
have another user's token inserted there.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass

from fastapi import Request
from markupsafe import escape

from perftrend.dashboard.auth import Authenticator, csrf_token
from perftrend.dashboard.auth.authentication import Identity
from perftrend.dashboard.formats import plain

NAME, TOKEN = (f"blank-{secrets.token_hex(16)}" for _ in range(2))
"""Placeholders of the user's name, and of the token of the user's forms."""
BLANK = "perftrend.blank"
"""Key in the scope of a request whose response is to have placeholders."""
_BLANKS = re.compile(f"({NAME}|{TOKEN})".encode())


@dataclass(frozen=True, slots=True)
class PlaceholderUser:
    """The user that placeholders are replaced for."""

    identity: Identity
    gate: Authenticator

    def replacements(self) -> Mapping[bytes, bytes]:
        """Return the replacement of each placeholder."""
        bound = self.identity.bound
        token = self.gate.forgery.token(bound) if bound else ""
        name = str(escape(plain(self.identity.user.name)))
        return {NAME.encode(): name.encode(), TOKEN.encode(): token.encode()}

    def fingerprint(self) -> bytes:
        """Return a text that differs between users, and changes after half the lifetime of a token."""
        half = int(time.time() // (self.gate.forgery.life_s / 2))
        return f"{half} {self.identity.bound} {self.identity.user.name}".encode()


def form_token(request: Request) -> str:
    """Return the CSRF token for a form, or its placeholder."""
    return TOKEN if request.scope.get(BLANK) and csrf_token(request) else csrf_token(request)


def parts_of(body: bytes) -> list[bytes]:
    """Split a body into texts and placeholders, which alternate."""
    return _BLANKS.split(body)
