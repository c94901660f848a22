"""Request and response bodies of the endpoints for users."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from perftrend.dashboard.auth.roles import MAXIMUM_NAME
from perftrend.dashboard.auth.tokens import LONGEST_DAYS
from perftrend.store.activity import ActivityEntry

RoleName = Literal["viewer", "editor", "admin"]


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
    tokens: list[TokenEntry]
    """Newest first."""


class Myself(BaseModel):
    """The user of the request."""

    name: str
    role: RoleName
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
