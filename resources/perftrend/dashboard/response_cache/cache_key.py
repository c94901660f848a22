"""Cache key of a request, and the reduced request that is built from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote

from starlette.requests import Request
from starlette.types import Scope

from perftrend.dashboard.auth import Role, User, gate_of
from perftrend.dashboard.auth.authentication import Identity
from perftrend.dashboard.auth.authorization import IDENTITY
from perftrend.dashboard.auth.roles import Person
from perftrend.dashboard.auth.sessions import UserSession
from perftrend.dashboard.middleware.clients import is_loopback
from perftrend.dashboard.response_cache.placeholders import BLANK, NAME

_SESSION = UserSession("", Person(NAME), 0)
_HERE = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Reader:
    """The properties of a user that a cached response may depend on, without the identity."""

    role: Role
    signed_in: bool
    has_forms: bool
    """Whether the user's forms have a token."""
    has_session: bool
    """Whether the user can sign out."""
    is_here: bool
    """Whether the client is on this machine, and the request comes from a page of the dashboard."""

    @classmethod
    def of(cls, request: Request, identity: Identity) -> Self:
        """Return the properties of the user of a request."""
        is_here = is_loopback(request.scope.get("perftrend.client", ""))
        return cls(
            role=identity.user.role,
            signed_in=identity.user.signed_in,
            has_forms=bool(identity.bound),
            has_session=identity.session is not None,
            is_here=is_here and gate_of(request).forgery.is_from_here(request),
        )

    @property
    def identity(self) -> Identity:
        """An anonymous identity with these properties."""
        return Identity(
            User(NAME, self.role, signed_in=self.signed_in),
            bound=NAME if self.has_forms else "",
            session=_SESSION if self.has_session else None,
        )


@dataclass(frozen=True, slots=True)
class CacheKey:
    """The parts of a request that a cached response may depend on."""

    path: str
    query: bytes
    """Unparsed, since the order of parameters may be significant."""
    as_json: bool
    reader: Reader

    @property
    def size(self) -> int:
        """Length of the path and the query, which the client chose."""
        return len(self.path) + len(self.query)

    def scope(self, came: Scope) -> dict[str, Any]:
        """Return an ASGI scope that contains nothing else of the original one."""
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": self.path,
            "raw_path": quote(self.path).encode(),
            "query_string": self.query,
            "root_path": came.get("root_path", ""),
            "headers": [
                (b"host", b"localhost"),
                (b"accept", b"application/json" if self.as_json else b"text/html"),
            ],
            "client": None,
            "server": ("localhost", 80),
            "state": {},
            "app": came["app"],
            "perftrend.client": _HERE if self.reader.is_here else "",
            IDENTITY: self.reader.identity,
            BLANK: True,
        }
