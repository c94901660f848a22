"""Endpoints and models of ``/users/grants``: admins grant, change and remove roles on their testbeds."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, HTTPException, Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from perftrend.dashboard.auth import TestbedAdmin, User, require_admin
from perftrend.dashboard.auth.roles import MAXIMUM_NAME, is_name
from perftrend.dashboard.context import AppContext, Context
from perftrend.dashboard.error_pages import Fault
from perftrend.dashboard.pages import body_of, done, parse_body
from perftrend.errors import UsageError, nearest
from perftrend.store.edits import EditResult
from perftrend.store.grants import ALL_TESTBEDS, GROUP, Grant

LOG = logging.getLogger(__name__)

router = APIRouter()

GrantedRole = Literal["editor", "admin"]
"""Everyone who signs in is a viewer, so that role is not granted."""
Identity = Annotated[int, Path(ge=1, le=2**31 - 1, description="id of a grant")]
Version = Annotated[int, Field(ge=1, le=2**31 - 1)]
_PATH = "/users/grants"
_PAGE = "/users"
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
    """Empty: all testbeds."""
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
    """Empty: all testbeds."""
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


@router.post(_PATH, response_model=GrantEntry, status_code=201, openapi_extra=body_of(NewGrant))
def grant_role(
    request: Request,
    site: Context,
    admin: TestbedAdmin,
    wanted: Annotated[NewGrant, Depends(parse_body(NewGrant))],
) -> Response:
    """Grant a role to a person or a group, on a testbed or on all testbeds."""
    require_admin(admin, [wanted.testbed])
    person = check_person(wanted.person)
    testbeds = site.store.tiles.testbeds()
    if wanted.testbed != ALL_TESTBEDS and wanted.testbed not in testbeds:
        raise UsageError(f"the store has no runs of that testbed{nearest(wanted.testbed, testbeds)}")
    added = site.store.grants.add(person, wanted.testbed, wanted.role, user=admin.name)
    LOG.info("%s granted %s: %s", admin.name, person, added.description)
    return done(request, _PAGE, GrantEntry.of(added), status=201)


@router.post(
    f"{_PATH}/{{identity}}",
    response_model=GrantEntry,
    responses=_CONFLICT,
    openapi_extra=body_of(ChangedGrant),
)
def change_role(
    request: Request,
    site: Context,
    admin: TestbedAdmin,
    identity: Identity,
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
    return _answer(request, admin, identity, outcome)


@router.post(
    f"{_PATH}/{{identity}}/remove",
    response_model=GrantEntry,
    responses=_CONFLICT,
    openapi_extra=body_of(RemovedGrant),
)
def remove_role(
    request: Request,
    site: Context,
    admin: TestbedAdmin,
    identity: Identity,
    wanted: Annotated[RemovedGrant, Depends(parse_body(RemovedGrant))],
) -> Response:
    """Remove a grant; the activity log retains it."""
    _check_admin(site, admin, identity)
    outcome = site.store.grants.remove(
        identity, version=wanted.version, user=admin.name, is_last_admin_allowed=_has_other_admins(site)
    )
    return _answer(request, admin, identity, outcome)


def check_person(text: str) -> str:
    """Return the name of a person or a group.

    :raises UsageError: if no person or group can have it.
    """
    if not is_name(text.removeprefix(GROUP)):
        raise UsageError(f"{text[:100]!r} is not a name; write a name as on its page /me, or {GROUP}NAME")
    return text


def _check_admin(site: AppContext, admin: User, identity: int) -> None:
    """Check that a user may change a grant; one that does not exist is reported later."""
    found = site.store.grants.find(identity)
    if found is not None:
        require_admin(admin, [found.testbed])


def _has_other_admins(site: AppContext) -> bool:
    """Return whether the settings name admins, who remain if all grants are removed."""
    return bool(site.settings.dashboard.admins)


def _answer(request: Request, admin: User, identity: int, outcome: EditResult[Grant]) -> Response:
    now = outcome.now
    if now is None:
        raise HTTPException(404, f"nothing was changed: grant {identity} does not exist, or was removed")
    if not outcome.is_done:
        last = f"{now.granted_by} made {now.person} {now.description} at {now.granted:%Y-%m-%d %H:%M:%S} UTC"
        raise HTTPException(409, f"nothing was changed: {last}, after you opened the page; reload it")
    LOG.info("%s changed or removed the role of %s: %s", admin.name, now.person, now.description)
    return done(request, _PAGE, GrantEntry.of(now))
