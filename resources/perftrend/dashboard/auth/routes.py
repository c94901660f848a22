"""Endpoints and models of ``/users``, where admins manage roles and API tokens, and of ``/activity``."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, cast

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from perftrend.dashboard.auth import Admin, TestbedAdmin, User, Viewer, require_admin
from perftrend.dashboard.auth.authentication import LONGEST_DAYS, new_token
from perftrend.dashboard.auth.authorization import identity_of
from perftrend.dashboard.auth.users import MAXIMUM_NAME, Role, RoleName, is_name
from perftrend.dashboard.context import AppContext, Context
from perftrend.dashboard.error_pages import Fault, in_field
from perftrend.dashboard.pages import body_of, done, page, parse_body
from perftrend.dashboard.response_cache import cacheable
from perftrend.errors import UsageError, nearest
from perftrend.store.access import ALL_TESTBEDS, GROUP, Grant, Token, is_pattern, subject_of
from perftrend.store.activity import ActivityEntry, EditResult

LOG = logging.getLogger(__name__)

router = APIRouter()

GrantedRole = Literal["editor", "admin"]
"""Everyone who signs in is a viewer, so that role is not granted."""
GrantIdentity = Annotated[int, Path(ge=1, le=2**31 - 1, description="id of a grant")]
Version = Annotated[int, Field(ge=1, le=2**31 - 1)]
# PostgreSQL cannot store NUL in text, so no entry contains it.
Filter = Annotated[str | None, Query(max_length=255, pattern="^[^\\x00]*$")]
_USERS = "/users"
_GRANTS = "/users/grants"
_NO_STORE = {"Cache-Control": "no-store"}
_CONFLICT: dict[int | str, dict[str, Any]] = {
    409: {"model": Fault, "description": "Another user has changed it in the meantime."}
}


class NewGrant(BaseModel):
    """Request to grant a role."""

    # A form also contains its CSRF token.
    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)

    person: Annotated[str, Field(min_length=1, max_length=len(GROUP) + MAXIMUM_NAME)]
    """A name, exactly as the provider or the proxy supplies it, or ``group:NAME``."""
    testbed: Annotated[str, Field(max_length=255)] = ALL_TESTBEDS
    """A testbed, or a pattern such as ``vpp-*`` for all whose names begin so; empty: all testbeds."""
    role: GrantedRole


class ChangedGrant(BaseModel):
    """Request to change the role of a grant."""

    model_config = ConfigDict(extra="ignore")

    role: GrantedRole
    version: Version
    """Version of the grant that the change is based on."""


class RemovedGrant(BaseModel):
    """Request to remove a grant."""

    model_config = ConfigDict(extra="ignore")

    version: Version
    """Version of the grant that is to be removed."""


class GrantEntry(BaseModel):
    """A role of a person or a group."""

    id: int
    person: str
    """A name, or ``group:NAME``."""
    testbed: str
    """A testbed or a pattern; empty: all testbeds."""
    role: GrantedRole
    granted: datetime
    granted_by: str
    """The user who granted or last changed it."""
    version: int
    """Required in a change or a removal."""

    @classmethod
    def of(cls, grant: Grant) -> GrantEntry:
        """Return the view of a grant."""
        values = {name: getattr(grant, name) for name in Grant.__slots__ if name != "identity"}
        return cls(id=grant.identity, **values)


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


class ActivityLog(BaseModel):
    """Changes that users made, newest first."""

    acts: list[ActivityEntry]
    before: int | None
    """Value of the parameter ``before`` for the next older page; None: there are no older entries."""


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
        testbeds=[
            each for each in site.store.tiles.testbeds() if "*" not in each and admin.may_administer(each)
        ],
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
    with in_field("name"):
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


@router.post(_GRANTS, response_model=GrantEntry, status_code=201, openapi_extra=body_of(NewGrant))
def grant_role(
    request: Request,
    site: Context,
    admin: TestbedAdmin,
    wanted: Annotated[NewGrant, Depends(parse_body(NewGrant))],
) -> Response:
    """Grant a role to a person or a group: on a testbed, on those that match a pattern, or on all."""
    with in_field("person"):
        person = check_person(wanted.person)
    with in_field("testbed"):
        _check_scope(wanted.testbed, site.store.tiles.testbeds())
    require_admin(admin, [wanted.testbed])
    with in_field("person"):
        added = site.store.grants.add(person, wanted.testbed, wanted.role, user=admin.name)
    LOG.info("%s granted %s: %s", admin.name, person, added.description)
    return done(request, _USERS, GrantEntry.of(added), status=201)


@router.post(
    f"{_GRANTS}/{{identity}}",
    response_model=GrantEntry,
    responses=_CONFLICT,
    openapi_extra=body_of(ChangedGrant),
)
def change_role(
    request: Request,
    site: Context,
    admin: TestbedAdmin,
    identity: GrantIdentity,
    wanted: Annotated[ChangedGrant, Depends(parse_body(ChangedGrant))],
) -> Response:
    """Change the role of a grant."""
    _check_admin(site, admin, identity)
    outcome = site.store.grants.edit(
        identity,
        wanted.role,
        version=wanted.version,
        user=admin.name,
        is_last_admin_allowed=_has_other_admins(site),
    )
    return _answer_edit(request, admin, identity, outcome)


@router.post(
    f"{_GRANTS}/{{identity}}/remove",
    response_model=GrantEntry,
    responses=_CONFLICT,
    openapi_extra=body_of(RemovedGrant),
)
def remove_role(
    request: Request,
    site: Context,
    admin: TestbedAdmin,
    identity: GrantIdentity,
    wanted: Annotated[RemovedGrant, Depends(parse_body(RemovedGrant))],
) -> Response:
    """Remove a grant; the activity log retains it."""
    _check_admin(site, admin, identity)
    outcome = site.store.grants.remove(
        identity, version=wanted.version, user=admin.name, is_last_admin_allowed=_has_other_admins(site)
    )
    return _answer_edit(request, admin, identity, outcome)


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


def check_person(text: str) -> str:
    """Return the name of a person or a group.

    :raises UsageError: if no person or group can have it.
    """
    if not is_name(text.removeprefix(GROUP)):
        raise UsageError(f"{text[:100]!r} is not a name; write a name as on its page /me, or {GROUP}NAME")
    return text


def _check_scope(testbed: str, known: Sequence[str]) -> None:
    """Check that a role can be granted on a testbed, a pattern, or all testbeds.

    :raises UsageError: otherwise. A ``*`` in the name of a known testbed cannot be written, since it would be
        read as a pattern.
    """
    if testbed == "*":
        raise UsageError(
            "* alone is not a pattern; leave the testbed empty to grant the role on all testbeds"
        )
    if "*" in testbed:
        if not is_pattern(testbed) or not testbed.isprintable():
            raise UsageError(
                f"{testbed[:100]!r} is not a pattern; write the beginning of names and one * at the end, "
                "such as vpp-*"
            )
    elif testbed != ALL_TESTBEDS and testbed not in known:
        raise UsageError(f"the store has no runs of that testbed{nearest(testbed, known)}")


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


def _check_admin(site: AppContext, admin: User, identity: int) -> None:
    """Check that a user may change a grant; one that does not exist is reported later."""
    found = site.store.grants.find(identity)
    if found is not None:
        require_admin(admin, [found.testbed])


def _has_other_admins(site: AppContext) -> bool:
    """Return whether the settings name admins, who remain if all grants are removed."""
    return bool(site.settings.dashboard.admins)


def _answer_edit(request: Request, admin: User, identity: int, outcome: EditResult[Grant]) -> Response:
    now = outcome.now
    if now is None:
        raise HTTPException(404, f"nothing was changed: grant {identity} does not exist, or was removed")
    if not outcome.is_done:
        last = f"{now.granted_by} made {now.person} {now.description} at {now.granted:%Y-%m-%d %H:%M:%S} UTC"
        raise HTTPException(409, f"nothing was changed: {last}, after you opened the page; reload it")
    LOG.info("%s changed or removed the role of %s: %s", admin.name, now.person, now.description)
    return done(request, _USERS, GrantEntry.of(now))
