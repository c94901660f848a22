"""What a cached response depends on: its route, the key of the request, and placeholders for the user.

An endpoint whose responses are cached receives a reduced request, which is built from the key. What differs
between users with the same key is a placeholder in the response, which is replaced when it is sent. A
placeholder is an unpredictable text. Otherwise a user could write one into an annotation, for example, and
have another user's token inserted there.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self, TypeVar
from urllib.parse import quote

from fastapi.routing import APIRoute
from markupsafe import escape
from starlette.requests import Request
from starlette.routing import BaseRoute
from starlette.types import Scope

from perftrend.dashboard.auth import Authenticator, Role, User, authenticator_of, csrf_token
from perftrend.dashboard.auth.authentication import Identity
from perftrend.dashboard.auth.authorization import IDENTITY
from perftrend.dashboard.auth.users import Person, UserSession
from perftrend.dashboard.formats import plain
from perftrend.dashboard.middleware.rate_limit import is_loopback

_Endpoint = TypeVar("_Endpoint", bound=Callable[..., object])
NAME, TOKEN = (f"blank-{secrets.token_hex(16)}" for _ in range(2))
"""Placeholders of the user's name, and of the token of the user's forms."""
BLANK = "perftrend.blank"
"""Key in the scope of a request whose response is to have placeholders."""
_BLANKS = re.compile(f"({NAME}|{TOKEN})".encode())
_MARK = "perftrend_is_kept"
_SESSION = UserSession("", Person(NAME), datetime.fromtimestamp(0, UTC))
_HERE = "127.0.0.1"


def cacheable(endpoint: _Endpoint) -> _Endpoint:
    """Declare that the responses of an endpoint may be cached."""
    setattr(endpoint, _MARK, True)
    return endpoint


class CacheableRoutes:
    """The routes of an application whose responses may be cached.

    :param routes: all routes, in the order in which they are tried.
    """

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self._routes = [
            route for route in routes if isinstance(route, APIRoute) and "GET" in (route.methods or ())
        ]
        # Most paths have no parameter and do not need to be matched.
        self._plain = {route.path: self._first(route.path) for route in self._routes}

    def of(self, path: str) -> APIRoute | None:
        """Return the route that serves GET of a path if its responses may be cached, otherwise None."""
        route = self._plain[path] if path in self._plain else self._first(path)
        return route if route is not None and getattr(route.endpoint, _MARK, False) else None

    def _first(self, path: str) -> APIRoute | None:
        return next((route for route in self._routes if route.path_regex.match(path)), None)


@dataclass(frozen=True, slots=True)
class Reader:
    """The properties of a user that a cached response may depend on, without the identity."""

    role: Role
    testbeds: tuple[tuple[str, Role], ...]
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
            testbeds=identity.user.testbeds,
            signed_in=identity.user.signed_in,
            has_forms=bool(identity.bound),
            has_session=identity.session is not None,
            is_here=is_here and authenticator_of(request).csrf.is_from_here(request),
        )

    @property
    def identity(self) -> Identity:
        """An anonymous identity with these properties."""
        return Identity(
            User(NAME, self.role, signed_in=self.signed_in, testbeds=self.testbeds),
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


@dataclass(frozen=True, slots=True)
class PlaceholderUser:
    """The user that placeholders are replaced for."""

    identity: Identity
    authenticator: Authenticator

    def replacements(self) -> Mapping[bytes, bytes]:
        """Return the replacement of each placeholder."""
        bound = self.identity.bound
        token = self.authenticator.csrf.token(bound) if bound else ""
        name = str(escape(plain(self.identity.user.name)))
        return {NAME.encode(): name.encode(), TOKEN.encode(): token.encode()}

    def fingerprint(self) -> bytes:
        """Return a text that differs between users, and changes after half the lifetime of a token."""
        half = int(time.time() // (self.authenticator.csrf.life_s / 2))
        return f"{half} {self.identity.bound} {self.identity.user.name}".encode()


def form_token(request: Request) -> str:
    """Return the CSRF token for a form, or its placeholder."""
    return TOKEN if request.scope.get(BLANK) and csrf_token(request) else csrf_token(request)


def parts_of(body: bytes) -> list[bytes]:
    """Split a body into texts and placeholders, which alternate."""
    return _BLANKS.split(body)
