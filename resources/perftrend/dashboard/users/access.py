"""Who may do what: the dependencies that endpoints name.

``Viewer``, ``Editor`` and ``Admin`` give the user, or answer why they may not: 401 where somebody should say
who they are, 403 where that does not help. For methods that change something they all ask for the token of
the form, where a browser could have been made to send it.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, cast
from urllib.parse import quote

from fastapi import Depends, HTTPException, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from perftrend.dashboard.users.forgery import SAFE_METHODS, submitted_token
from perftrend.dashboard.users.gate import Gate, Identity
from perftrend.dashboard.users.roles import NOBODY, Role, User
from perftrend.errors import StoreError

_FORGED = "this form is from another site or too old; reload the page and send it again"

BEARER = HTTPBearer(
    scheme_name="token",
    description="An API token, which an admin makes at /users. Each role may do what the ones before it may: "
    + ", ".join(role.title for role in Role),
    # What it is worth, and whether one is needed, is found out below.
    auto_error=False,
)
"""What OpenAPI says of API tokens."""

IDENTITY = "perftrend.identity"
"""In the scope, which no two requests share; a server may let them share their state."""


def gate_of(request: Request) -> Gate:
    """Return what knows the users."""
    return cast("Gate", request.app.state.gate)


def identity_of(request: Request) -> Identity:
    """Return who makes a request; asked once a request."""
    found: Identity | None = request.scope.get(IDENTITY)
    if found is None:
        found = request.scope[IDENTITY] = gate_of(request).identify(request)
    return found


def current_user(request: Request) -> User:
    """Return who makes a request, for what a page shows; nobody where that cannot be found out."""
    try:
        return identity_of(request).user
    except (HTTPException, StoreError):
        return NOBODY


def known_user(request: Request) -> User:
    """Return who makes a request as far as that was asked before: the store may be away."""
    found: Identity | None = request.scope.get(IDENTITY)
    return found.user if found else NOBODY


def csrf_token(request: Request) -> str:
    """Return what a form has to carry in its field ``csrf``; empty where nobody may send it."""
    try:
        bound = identity_of(request).bound
    except (HTTPException, StoreError):
        return ""
    return gate_of(request).forgery.token(bound) if bound else ""


def requiring(role: Role) -> Callable[..., User]:
    """Return the dependency that lets users of a role pass, and of greater ones."""

    def user(
        request: Request,
        token: Annotated[str, Depends(submitted_token)],
        _: HTTPAuthorizationCredentials | None = Security(BEARER, scopes=[role.title]),  # noqa: B008 - as FastAPI wants it
    ) -> User:
        gate, identity = gate_of(request), identity_of(request)
        _require_role(request, gate, identity.user, role)
        if request.method not in SAFE_METHODS and identity.is_ambient:
            _require_own_form(request, gate, identity, token)
        return identity.user

    return user


def _require_role(request: Request, gate: Gate, user: User, role: Role) -> None:
    if user.signed_in or gate.is_public:
        if user.role >= role:
            return
        if user.signed_in:
            reason = f"this requires the role {role.title}, and your role is {user.role.title}"
            raise HTTPException(HTTPStatus.FORBIDDEN, reason)
    if gate.provider is not None and request.method == "GET" and _is_browser(request):
        place = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        headers = {"Location": f"/sign-in?next={quote(place, safe='')}"}
        raise HTTPException(HTTPStatus.SEE_OTHER, "sign in first", headers)
    raise HTTPException(HTTPStatus.UNAUTHORIZED, gate.way_in, {"WWW-Authenticate": "Bearer"})


def _require_own_form(request: Request, gate: Gate, identity: Identity, token: str) -> None:
    is_ours = not identity.bound or gate.forgery.is_ours(token, identity.bound)
    if not (is_ours and gate.forgery.is_from_here(request)):
        raise HTTPException(HTTPStatus.FORBIDDEN, _FORGED)


def _is_browser(request: Request) -> bool:
    accepts = request.headers.get("accept", "")
    return "text/html" in accepts and request.query_params.get("format") != "json"


viewing, editing, administering = (requiring(role) for role in Role)
