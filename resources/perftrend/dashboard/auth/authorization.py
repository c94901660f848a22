"""Authorization: the dependencies of endpoints that require a role.

``Viewer`` and ``Admin`` return the user, or respond with an error: 401 if the user has to authenticate, 403
if the user's role on all testbeds is insufficient. ``TestbedEditor`` and ``TestbedAdmin`` require the role on
any testbed; their endpoints call :func:`require_editor` or :func:`require_admin` with the testbeds of what
they change. For methods that change data they also verify the CSRF token, if the credentials are ones that a
browser sends by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Annotated, cast
from urllib.parse import quote

from fastapi import Depends, HTTPException, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from perftrend.dashboard.auth.authentication import Authenticator, Identity
from perftrend.dashboard.auth.csrf import SAFE_METHODS, read_csrf_token
from perftrend.dashboard.auth.users import ANONYMOUS, Role, User
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


def require_editor(user: User, testbeds: Iterable[str]) -> None:
    """Check that a user may change the data of testbeds.

    :param testbeds: their names; an empty name is all testbeds.
    :raises HTTPException: with status 403 otherwise.
    """
    _require_role_on(user, Role.EDITOR, testbeds)


def require_admin(user: User, testbeds: Iterable[str]) -> None:
    """Check that a user may grant roles on testbeds; like :func:`require_editor`."""
    _require_role_on(user, Role.ADMIN, testbeds)


def role_dependency(role: Role, *, of_testbed: bool = False) -> Callable[..., User]:
    """Return the dependency that requires a role or a higher one.

    :param of_testbed: whether the role on any testbed is sufficient.
    """

    def user(
        request: Request,
        token: Annotated[str, Depends(read_csrf_token)],
        _: HTTPAuthorizationCredentials | None = Security(BEARER, scopes=[role.title]),  # noqa: B008 - FastAPI requires it
    ) -> User:
        authenticator, identity = authenticator_of(request), identity_of(request)
        user_role = identity.user.highest if of_testbed else identity.user.role
        _require_role(request, authenticator, identity.user, user_role, role)
        if request.method not in SAFE_METHODS and identity.is_ambient:
            _require_own_form(request, authenticator, identity, token)
        return identity.user

    return user


def _require_role(
    request: Request, authenticator: Authenticator, user: User, user_role: Role, role: Role
) -> None:
    if user.signed_in or authenticator.is_public:
        if user_role >= role:
            return
        if user.signed_in:
            where = " on all testbeds" if user.testbeds else ""
            reason = f"this requires the role {role.title}{where}, and your role is {user_role.title}"
            raise HTTPException(HTTPStatus.FORBIDDEN, reason)
    if authenticator.provider is not None and request.method == "GET" and _is_browser(request):
        place = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        headers = {"Location": f"/sign-in?next={quote(place, safe='')}"}
        raise HTTPException(HTTPStatus.SEE_OTHER, "sign in first", headers)
    raise HTTPException(HTTPStatus.UNAUTHORIZED, authenticator.way_in, {"WWW-Authenticate": "Bearer"})


def _require_role_on(user: User, role: Role, testbeds: Iterable[str]) -> None:
    for testbed in sorted(set(testbeds)):
        if user.role_on(testbed) < role:
            where = testbed or "all testbeds"
            actual = user.role_on(testbed).title
            reason = f"this requires the role {role.title} on {where}, and your role there is {actual}"
            raise HTTPException(HTTPStatus.FORBIDDEN, reason)


def _require_own_form(request: Request, authenticator: Authenticator, identity: Identity, token: str) -> None:
    is_ours = not identity.bound or authenticator.csrf.is_ours(token, identity.bound)
    if not (is_ours and authenticator.csrf.is_from_here(request)):
        raise HTTPException(HTTPStatus.FORBIDDEN, _FORGED)


def _is_browser(request: Request) -> bool:
    accepts = request.headers.get("accept", "")
    return "text/html" in accepts and request.query_params.get("format") != "json"


viewing, administering = (role_dependency(role) for role in (Role.VIEWER, Role.ADMIN))
editing_testbed, administering_testbed = (
    role_dependency(role, of_testbed=True) for role in (Role.EDITOR, Role.ADMIN)
)
