"""``/users``, which manages API tokens, and ``/me``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, cast

from fastapi import APIRouter, Depends, HTTPException, Path, Request, Response

from perftrend.dashboard.auth import Admin, Viewer
from perftrend.dashboard.auth.models import MadeToken, Myself, NewToken, RoleName, TokenEntry, Users
from perftrend.dashboard.auth.roles import Role
from perftrend.dashboard.auth.tokens import LONGEST_DAYS, new_token
from perftrend.dashboard.context import AppContext, Context
from perftrend.dashboard.pages import done, page
from perftrend.dashboard.request_body import body_of, parse_body
from perftrend.store.tokens import Token

router = APIRouter()

_NO_STORE = {"Cache-Control": "no-store"}


@router.get("/users", response_model=Users)
def users(request: Request, site: Context, _: Admin) -> Response:
    """List the users with a role, and the API tokens."""
    return _page(request, site)


@router.post("/users/tokens", response_model=MadeToken, status_code=201, openapi_extra=body_of(NewToken))
def make(
    request: Request,
    site: Context,
    admin: Admin,
    wanted: Annotated[NewToken, Depends(parse_body(NewToken))],
) -> Response:
    """Create an API token. It is shown only in this response."""
    token, text = new_token(
        site.store.tokens, name=wanted.name, role=Role.of(wanted.role), owner=admin.name, days=wanted.days
    )
    made = MadeToken(token=text, entry=_entry(token, datetime.now(UTC)))
    return page(request, "token.html", made, title="New API token", status=201, headers=_NO_STORE)


@router.post("/users/tokens/{key}/revoke", response_model=Users)
def revoke(
    request: Request, site: Context, admin: Admin, key: Annotated[str, Path(pattern="^[0-9a-f]{12}$")]
) -> Response:
    """Revoke an API token. Revoking it again has no effect."""
    if site.store.tokens.find(key) is None:
        raise HTTPException(404, f"token {key} does not exist")
    site.store.tokens.revoke(key, admin.name, datetime.now(UTC))
    return done(request, "/users", _users(site))


@router.get("/me", response_model=Myself)
def me(request: Request, user: Viewer) -> Response:
    """Show the name and the role of the user of the request."""
    model = Myself(name=user.name, role=cast("RoleName", user.role.title), signed_in=user.signed_in)
    return page(request, "me.html", model, title="Your account", headers=_NO_STORE)


def _page(request: Request, site: AppContext) -> Response:
    return page(request, "users.html", _users(site), title="Users", longest_days=LONGEST_DAYS)


def _users(site: AppContext) -> Users:
    settings, now = site.settings.dashboard, datetime.now(UTC)
    return Users(
        public=settings.public,
        admins=sorted(settings.admins),
        editors=sorted(settings.editors),
        tokens=[_entry(token, now) for token in site.store.tokens.all()],
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
