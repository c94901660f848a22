"""What belongs to one reader only: it is left blank in an answer that is kept for many.

A blank is a text that nobody can know beforehand, so nobody can write one into an annotation, say, and have
somebody else's token filled in there.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass

from fastapi import Request
from markupsafe import escape

from perftrend.dashboard.formats import plain
from perftrend.dashboard.users import Gate, csrf_token
from perftrend.dashboard.users.gate import Identity

NAME, TOKEN = (f"blank-{secrets.token_hex(16)}" for _ in range(2))
"""Of the reader, and of the reader's forms."""
BLANK = "perftrend.blank"
"""In the scope of a request whose answer is to have blanks."""
_BLANKS = re.compile(f"({NAME}|{TOKEN})".encode())


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody that blanks are filled in for."""

    identity: Identity
    gate: Gate

    def filled(self) -> Mapping[bytes, bytes]:
        """Return what comes in place of each blank."""
        bound = self.identity.bound
        token = self.gate.forgery.token(bound) if bound else ""
        name = str(escape(plain(self.identity.user.name)))
        return {NAME.encode(): name.encode(), TOKEN.encode(): token.encode()}

    def told_apart(self) -> bytes:
        """Return what is another text for everybody else, and after half the life of a token."""
        half = int(time.time() // (self.gate.forgery.life_s / 2))
        return f"{half} {self.identity.bound} {self.identity.user.name}".encode()


def form_token(request: Request) -> str:
    """Return what a form has to carry, or the blank for it."""
    return TOKEN if request.scope.get(BLANK) and csrf_token(request) else csrf_token(request)


def parts_of(body: bytes) -> list[bytes]:
    """Split a body: text, and in each second place a blank."""
    return _BLANKS.split(body)
