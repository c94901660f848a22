"""Authorization: the dependencies of endpoints that require a role.

``Viewer``, ``Editor`` and ``Admin`` return the user, or respond with an error: 401 if the user has to
authenticate, 403 if the user's role is insufficient. For methods that change data they also verify the CSRF
token, if the credentials are ones that a browser sends by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, cast
from urllib.parse import quote

from fastapi import Depends, HTTPException, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from perftrend.dashboard.auth.authentication import Authenticator, Identity
from perftrend.dashboard.auth.csrf import SAFE_METHODS, read_csrf_token
from perftrend.dashboard.auth.roles import ANONYMOUS, Role, User
from perftrend.errors import StoreError

_FORGED = "this form is from another site or too old; reload the page and send it again"

BEARER = HTTPBearer(
    scheme_name="token",
    description="An API token, which an admin creates at /users. Each role includes the ones before it: "
    + ", ".join(role.title for role in Role),
    # The authenticator verifies tokens, and not every endpoint needs one.
    auto_error=False,
)
"""The security scheme of API tokens in the OpenAPI document."""

IDENTITY = "perftrend.identity"
"""Key in the scope, which belongs to one request; servers may share ``state`` between requests."""


def authenticator_of(request: Request) -> Authenticator:
    """Return the authenticator of the application."""
    return cast("Authenticator", request.app.state.authenticator)


def identity_of(request: Request) -> Identity:
    """Return the identity of the user of a request; determined once per request."""
    found: Identity | None = request.scope.get(IDENTITY)
    if found is None:
        found = request.scope[IDENTITY] = authenticator_of(request).identify(request)
    return found


def current_user(request: Request) -> User:
    """Return the user of a request for display; the anonymous user if authentication fails."""
    try:
        return identity_of(request).user
    except (HTTPException, StoreError):
        return ANONYMOUS


def known_user(request: Request) -> User:
    """Return the user of a request if already determined, without access to the store."""
    found: Identity | None = request.scope.get(IDENTITY)
    return found.user if found else ANONYMOUS


def csrf_token(request: Request) -> str:
    """Return the token for the field ``csrf`` of a form; empty if the user has none."""
    try:
        bound = identity_of(request).bound
    except (HTTPException, StoreError):
        return ""
    return authenticator_of(request).csrf.token(bound) if bound else ""


def role_dependency(role: Role) -> Callable[..., User]:
    """Return the dependency that requires a role or a higher one."""

    def user(
        request: Request,
        token: Annotated[str, Depends(read_csrf_token)],
        _: HTTPAuthorizationCredentials | None = Security(BEARER, scopes=[role.title]),  # noqa: B008 - FastAPI requires it
    ) -> User:
        authenticator, identity = authenticator_of(request), identity_of(request)
        _require_role(request, authenticator, identity.user, role)
        if request.method not in SAFE_METHODS and identity.is_ambient:
            _require_own_form(request, authenticator, identity, token)
        return identity.user

    return user


def _require_role(request: Request, authenticator: Authenticator, user: User, role: Role) -> None:
    if user.signed_in or authenticator.is_public:
        if user.role >= role:
            return
        if user.signed_in:
            reason = f"this requires the role {role.title}, and your role is {user.role.title}"
            raise HTTPException(HTTPStatus.FORBIDDEN, reason)
    if authenticator.provider is not None and request.method == "GET" and _is_browser(request):
        place = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        headers = {"Location": f"/sign-in?next={quote(place, safe='')}"}
        raise HTTPException(HTTPStatus.SEE_OTHER, "sign in first", headers)
    raise HTTPException(HTTPStatus.UNAUTHORIZED, authenticator.way_in, {"WWW-Authenticate": "Bearer"})


def _require_own_form(request: Request, authenticator: Authenticator, identity: Identity, token: str) -> None:
    is_ours = not identity.bound or authenticator.csrf.is_ours(token, identity.bound)
    if not (is_ours and authenticator.csrf.is_from_here(request)):
        raise HTTPException(HTTPStatus.FORBIDDEN, _FORGED)


def _is_browser(request: Request) -> bool:
    accepts = request.headers.get("accept", "")
    return "text/html" in accepts and request.query_params.get("format") != "json"


viewing, editing, administering = (role_dependency(role) for role in Role)
