"""Endpoints and models for users themselves: signing in and out, ``/sessions`` and ``/me``.

Users list and end their sessions, and admins those of everyone.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, cast

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request, Response
from pydantic import BaseModel
from starlette.responses import RedirectResponse

from perftrend.dashboard.auth import (
    ANONYMOUS,
    Admin,
    Authenticator,
    Role,
    User,
    Viewer,
    authenticator_of,
    current_user,
)
from perftrend.dashboard.auth.authorization import identity_of
from perftrend.dashboard.auth.oidc import HOME, Provider, SignInRefusedError
from perftrend.dashboard.auth.users import RoleName
from perftrend.dashboard.pages import done, page, wants_json
from perftrend.errors import ServiceError
from perftrend.store.access import StoredSession

LOG = logging.getLogger(__name__)

router = APIRouter()

RequestAuthenticator = Annotated[Authenticator, Depends(authenticator_of)]
QueryText = Annotated[str, Query(max_length=4096)]
Key = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="key of a session")]
_PATH = "/sessions"
_NO_STORE = {"Cache-Control": "no-store"}
_LOST = "this sign-in belongs to another browser, was used before or took too long; sign in again"


class SignedOut(BaseModel):
    """The result of signing out."""

    provider: str
    """URL for signing out at the provider as well; empty: not needed or not available."""


class SessionEntry(BaseModel):
    """A session."""

    key: str
    """Identifies the session; it cannot be used to sign in."""
    person: str
    begun: datetime
    used: datetime
    """Time of the last use, to the minute."""
    browser: str
    """Kind of browser that signed in."""
    address: str
    """Address that the person signed in from."""
    current: bool
    """Whether the request belongs to this session."""


class SessionList(BaseModel):
    """Sessions, the last used first."""

    own: list[SessionEntry]
    others: list[SessionEntry]
    """Those of other persons; for admins, otherwise empty."""


class EndedSessions(BaseModel):
    """Result of a request to end sessions."""

    ended: int
    """Number of sessions that ended."""


class Myself(BaseModel):
    """The user of the request."""

    name: str
    role: RoleName
    """The role on all testbeds."""
    testbeds: dict[str, RoleName]
    """Testbeds and patterns such as ``vpp-*`` on which the user has a higher role."""
    signed_in: bool


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


@router.get(_PATH, response_model=SessionList)
def sessions(request: Request, authenticator: RequestAuthenticator, user: Viewer) -> Response:
    """List the user's sessions; for admins, also those of all other users."""
    current = _current(request)
    is_admin = user.role >= Role.ADMIN
    found = authenticator.sessions.find_all(person=None if is_admin else user.name)
    entries = [_entry(each, current) for each in found]
    model = SessionList(
        own=[each for each in entries if each.person == user.name],
        others=[each for each in entries if each.person != user.name],
    )
    return page(
        request, "sessions.html", model, title="Sessions", is_admin=is_admin, has_session=bool(current),
        headers=_NO_STORE,
    )  # fmt: skip


@router.post(f"{_PATH}/end-others", response_model=EndedSessions)
def end_others(request: Request, authenticator: RequestAuthenticator, user: Viewer) -> Response:
    """End the user's sessions in other browsers."""
    return _end(request, authenticator, user, authenticator.sessions.find_all(person=user.name))


@router.post(f"{_PATH}/end-all", response_model=EndedSessions)
def end_all(request: Request, authenticator: RequestAuthenticator, admin: Admin) -> Response:
    """End the sessions of all users, except that of the request."""
    return _end(request, authenticator, admin, authenticator.sessions.find_all())


@router.post(f"{_PATH}/{{key}}/end", response_model=EndedSessions)
def end(request: Request, authenticator: RequestAuthenticator, user: Viewer, key: Key) -> Response:
    """End a session of the user; for admins, of any user."""
    person = None if user.role >= Role.ADMIN else user.name
    found = [each for each in authenticator.sessions.find_all(person=person) if each.key == key]
    if not found:
        raise HTTPException(404, "this session does not exist, has ended, or is not yours")
    answer = _end(request, authenticator, user, found, even_current=True)
    if key == _current(request):
        authenticator.forget(answer, authenticator.session_cookie)
    return answer


@router.get("/me", response_model=Myself)
def me(request: Request, user: Viewer) -> Response:
    """Show the name and the role of the user of the request."""
    model = Myself(
        name=user.name,
        role=cast("RoleName", user.role.title),
        # A pattern may give a higher role on a testbed than the grant on the testbed itself.
        testbeds={scope: cast("RoleName", user.role_on(scope).title) for scope, _ in user.testbeds},
        signed_in=user.signed_in,
    )
    return page(request, "me.html", model, title="Your account", headers=_NO_STORE)


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


def _end(
    request: Request,
    authenticator: Authenticator,
    user: User,
    found: Sequence[StoredSession],
    *,
    even_current: bool = False,
) -> Response:
    keys = [each.key for each in found if even_current or each.key != _current(request)]
    ended = authenticator.sessions.end(keys, user=user.name)
    LOG.info("%s ended %d sessions", user.name, ended)
    return done(request, _PATH, EndedSessions(ended=ended))


def _current(request: Request) -> str:
    session = identity_of(request).session
    return session.key if session else ""


def _entry(session: StoredSession, current: str) -> SessionEntry:
    return SessionEntry(
        key=session.key,
        person=session.person,
        begun=session.begun,
        used=session.used,
        browser=session.browser,
        address=session.address,
        current=session.key == current,
    )
