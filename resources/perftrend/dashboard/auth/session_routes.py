"""Endpoints and models of ``/sessions``: users list and end their sessions, and admins those of everyone."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Path, Request, Response
from pydantic import BaseModel

from perftrend.dashboard.auth import Admin, Authenticator, Role, User, Viewer, authenticator_of
from perftrend.dashboard.auth.authorization import identity_of
from perftrend.dashboard.pages import done, page
from perftrend.store.sessions import StoredSession

LOG = logging.getLogger(__name__)

router = APIRouter()

RequestAuthenticator = Annotated[Authenticator, Depends(authenticator_of)]
Key = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="key of a session")]
_PATH = "/sessions"
_NO_STORE = {"Cache-Control": "no-store"}


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
