"""The endpoints for users: signing in and out, API tokens (``/users``), ``/me`` and the log ``/activity``.

Their request and response bodies precede them.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Annotated, Literal, cast

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request, Response
from pydantic import BaseModel, Field
from starlette.responses import RedirectResponse

from perftrend.dashboard.auth import (
    ANONYMOUS,
    Admin,
    Authenticator,
    TestbedAdmin,
    User,
    Viewer,
    authenticator_of,
    current_user,
)
from perftrend.dashboard.auth.authorization import identity_of
from perftrend.dashboard.auth.grant_routes import GrantEntry
from perftrend.dashboard.auth.oidc import HOME, Provider, SignInRefusedError
from perftrend.dashboard.auth.roles import MAXIMUM_NAME, Role
from perftrend.dashboard.auth.tokens import LONGEST_DAYS, new_token
from perftrend.dashboard.context import AppContext, Context
from perftrend.dashboard.pages import body_of, done, page, parse_body, wants_json
from perftrend.dashboard.response_cache import cacheable
from perftrend.errors import ServiceError
from perftrend.store.activity import ActivityEntry
from perftrend.store.grants import subject_of
from perftrend.store.tokens import Token

LOG = logging.getLogger(__name__)

router = APIRouter()

RoleName = Literal["viewer", "editor", "admin"]
RequestAuthenticator = Annotated[Authenticator, Depends(authenticator_of)]
QueryText = Annotated[str, Query(max_length=4096)]
# PostgreSQL cannot store NUL in text, so no entry contains it.
Filter = Annotated[str | None, Query(max_length=255, pattern="^[^\\x00]*$")]
_NO_STORE = {"Cache-Control": "no-store"}
_LOST = "this sign-in belongs to another browser, was used before or took too long; sign in again"


class NewToken(BaseModel):
    """A request for an API token."""

    name: Annotated[str, Field(min_length=1, max_length=MAXIMUM_NAME - 10)]
    """What the token is for, such as ``nightly-2n-clx``."""
    role: RoleName = "viewer"
    days: Annotated[int, Field(ge=1, le=LONGEST_DAYS)] = 90
    """How long the token is valid."""


class TokenEntry(BaseModel):
    """An API token without its secret."""

    key: str
    """Public identifier of the token: the part between the underscores."""
    name: str
    role: RoleName
    owner: str
    """The user who created the token."""
    made: datetime
    expires: datetime
    used: datetime | None
    """Time of the last use, to the minute."""
    revoked: datetime | None
    revoked_by: str
    state: Literal["valid", "expired", "revoked"]


class MadeToken(BaseModel):
    """A newly created token."""

    token: str
    """The token itself. It is not shown again."""
    entry: TokenEntry


class Users(BaseModel):
    """The users with a role, and the API tokens."""

    public: bool
    """Whether users may read without signing in."""
    admins: list[str]
    """Names, and groups as ``group:NAME``; users who sign in and are not in a list are viewers."""
    editors: list[str]
    grants: list[GrantEntry]
    """Roles that admins granted in addition to the settings, by person and testbed."""
    tokens: list[TokenEntry]
    """Newest first; empty for admins of single testbeds."""


class Myself(BaseModel):
    """The user of the request."""

    name: str
    role: RoleName
    """The role on all testbeds."""
    testbeds: dict[str, RoleName]
    """Testbeds on which the user has a higher role."""
    signed_in: bool


class SignedOut(BaseModel):
    """The result of signing out."""

    provider: str
    """URL for signing out at the provider as well; empty: not needed or not available."""


class ActivityLog(BaseModel):
    """Changes that users made, newest first."""

    acts: list[ActivityEntry]
    before: int | None
    """Value of the parameter ``before`` for the next older page; None: there are no older entries."""


@router.get("/sign-in", status_code=303, response_class=RedirectResponse)
def sign_in(request: Request, authenticator: RequestAuthenticator, next: str = HOME) -> Response:  # noqa: A002 - the usual name of the parameter
    """Redirect to the provider; after signing in, the user returns to the requested page."""
    provider = _provider(authenticator)
    attempt = authenticator.attempts.begin(next)
    answer = RedirectResponse(provider.address(attempt, authenticator.back(request)), 303, _NO_STORE)
    authenticator.set_attempt_cookie(answer, authenticator.attempts.cookie(attempt))
    return answer


@router.get("/sign-in/done", status_code=303, response_class=RedirectResponse)
def come_back(
    request: Request,
    authenticator: RequestAuthenticator,
    state: QueryText = "",
    code: QueryText = "",
    iss: QueryText | None = None,
) -> Response:
    """Complete a sign-in after the provider has redirected back."""
    provider = _provider(authenticator)
    attempt = authenticator.attempts.come_back(request.cookies.get(authenticator.attempt_cookie, ""), state)
    if attempt is None:
        raise HTTPException(400, _LOST)
    if not code:
        # The provider's error message is not shown, since anyone can put text into such a link.
        raise HTTPException(403, "the provider denied access; sign in again")
    try:
        person = provider.person(attempt, authenticator.back(request), code, iss)
    except SignInRefusedError as error:
        LOG.warning("sign-in refused: %s (%r)", error, error.__cause__)
        raise HTTPException(403, str(error)) from None
    answer = RedirectResponse(attempt.place, 303, _NO_STORE)
    _end_session(request, authenticator)
    authenticator.sign_in(request, answer, person)
    authenticator.forget(answer, authenticator.attempt_cookie)
    LOG.info("%s signed in", person.name)
    return answer


@router.post("/sign-out", response_model=SignedOut)
def sign_out(request: Request, authenticator: RequestAuthenticator, user: Viewer) -> Response:
    """End a session, and redirect to sign out at the provider as well.

    The cookie and all copies of it become invalid, independent of the provider.
    """
    _end_session(request, authenticator)
    LOG.info("%s signed out", user.name)
    model = SignedOut(provider=_also_at_provider(request, authenticator))
    if model.provider or wants_json(request):
        answer = _confirm_sign_out(request, model, ANONYMOUS)
    else:
        answer = RedirectResponse("/sign-out/done", 303, _NO_STORE)
    authenticator.forget(answer, authenticator.session_cookie)
    return answer


@router.get("/sign-out/done", response_model=SignedOut)
def signed_out(request: Request) -> Response:
    """Confirm that the user is signed out; the home page could sign the user in again immediately."""
    return _confirm_sign_out(request, SignedOut(provider=""), current_user(request))


@router.get("/users", response_model=Users)
def users(request: Request, site: Context, admin: TestbedAdmin) -> Response:
    """List the users with a role, and the API tokens."""
    return page(
        request,
        "users.html",
        _users(site, admin),
        title="Users",
        longest_days=LONGEST_DAYS,
        subject_of=subject_of,
        testbeds=[each for each in site.store.tiles.testbeds() if admin.may_administer(each)],
    )


@router.post("/users/tokens", response_model=MadeToken, status_code=201, openapi_extra=body_of(NewToken))
def make(
    request: Request,
    site: Context,
    admin: Admin,
    wanted: Annotated[NewToken, Depends(parse_body(NewToken))],
) -> Response:
    """Create an API token. It is shown only in this response."""
    identity = identity_of(request)
    token, text = new_token(
        site.store.tokens,
        name=wanted.name,
        role=Role.of(wanted.role),
        owner=admin.name,
        days=wanted.days,
        groups=None if identity.token else identity.groups,
        parent=identity.token,
    )
    made = MadeToken(token=text, entry=_entry(token, datetime.now(UTC)))
    return page(request, "token.html", made, title="New API token", status=201, headers=_NO_STORE)


@router.post("/users/tokens/{key}/revoke", response_model=Users)
def revoke(
    request: Request, site: Context, admin: Admin, key: Annotated[str, Path(pattern="^[0-9a-f]{12}$")]
) -> Response:
    """Revoke an API token, and those that it created. Revoking it again has no effect."""
    if site.store.tokens.find(key) is None:
        raise HTTPException(404, f"token {key} does not exist")
    site.store.tokens.revoke(key, admin.name, datetime.now(UTC))
    return done(request, "/users", _users(site, admin))


@router.get("/me", response_model=Myself)
def me(request: Request, user: Viewer) -> Response:
    """Show the name and the role of the user of the request."""
    model = Myself(
        name=user.name,
        role=cast("RoleName", user.role.title),
        testbeds={testbed: cast("RoleName", role.title) for testbed, role in user.testbeds},
        signed_in=user.signed_in,
    )
    return page(request, "me.html", model, title="Your account", headers=_NO_STORE)


@router.get("/activity", response_model=ActivityLog)
@cacheable
def activity(  # noqa: PLR0917 - FastAPI passes each by name
    request: Request,
    site: Context,
    _: Viewer,
    subject: Filter = None,
    user: Filter = None,
    before: Annotated[int | None, Query(ge=1, le=2**31 - 1, description="entries before this number")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """List the changes that users made, newest first."""
    # One more entry than is shown, to find out whether there is a next page.
    found = site.store.activity.newest(limit + 1, subject=subject or None, user=user or None, before=before)
    shown = found[:limit]
    model = ActivityLog(acts=shown, before=shown[-1].number if len(found) > limit else None)
    older = {"subject": subject or "", "user": user or "", "limit": limit, "before": model.before}
    return page(
        request,
        "activity.html",
        model,
        title="Activity",
        subject=subject or "",
        user_filter=user or "",
        older=older,
    )


def _confirm_sign_out(request: Request, model: SignedOut, user: User) -> Response:
    # A refresh instead of a redirect: the form-action policy forbids redirects of forms to other sites.
    onwards = {"Refresh": f"0; url={model.provider}"} if model.provider else {}
    title = f"Signed {'in' if user.signed_in else 'out'}"
    headers = {**_NO_STORE, **onwards}
    return page(request, "signed-out.html", model, title=title, headers=headers, user=user)


def _also_at_provider(request: Request, authenticator: Authenticator) -> str:
    """Return the URL for signing out at the provider; empty if that is not needed or not possible."""
    if authenticator.provider is None or identity_of(request).session is None:
        return ""
    try:
        return authenticator.provider.address_after(authenticator.after(request))
    except ServiceError as error:
        LOG.warning("signed out here only: %s", error)
        return ""


def _provider(authenticator: Authenticator) -> Provider:
    if authenticator.provider is None:
        raise HTTPException(404, "signing in is not configured; dashboard.oidc_issuer is not set")
    return authenticator.provider


def _end_session(request: Request, authenticator: Authenticator) -> None:
    session = identity_of(request).session
    if session is not None:
        authenticator.sessions.end([session.key])


def _users(site: AppContext, admin: User) -> Users:
    settings, now = site.settings.dashboard, datetime.now(UTC)
    return Users(
        public=settings.public,
        admins=sorted(settings.admins),
        editors=sorted(settings.editors),
        grants=[GrantEntry.of(each) for each in site.store.grants.all()],
        tokens=[_entry(token, now) for token in site.store.tokens.all()] if admin.may_administer() else [],
    )


def _entry(token: Token, now: datetime) -> TokenEntry:
    return TokenEntry(
        key=token.key,
        name=token.name,
        role=cast("RoleName", token.role),
        owner=token.owner,
        made=token.made,
        expires=token.expires,
        used=token.used,
        revoked=token.revoked,
        revoked_by=token.revoked_by,
        state="revoked" if token.revoked else "expired" if now >= token.expires else "valid",
    )
