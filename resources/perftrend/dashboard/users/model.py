"""What ``/users`` and ``/activity`` answer and take."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from perftrend.dashboard.users.roles import MAXIMUM_NAME
from perftrend.dashboard.users.tokens import LONGEST_DAYS

RoleName = Literal["viewer", "editor", "admin"]


class NewToken(BaseModel):
    """A token that somebody wants."""

    name: Annotated[str, Field(min_length=1, max_length=MAXIMUM_NAME - 10)]
    """What it is for, such as ``nightly-2n-clx``."""
    role: RoleName = "viewer"
    days: Annotated[int, Field(ge=1, le=LONGEST_DAYS)] = 90
    """How long it is taken."""


class TokenEntry(BaseModel):
    """A token, without what is secret of it."""

    key: str
    """By which it is known: what stands between the underscores."""
    name: str
    role: RoleName
    owner: str
    """Who made it."""
    made: datetime
    expires: datetime
    used: datetime | None
    """When it was used last, to the minute."""
    revoked: datetime | None
    revoked_by: str
    state: Literal["valid", "expired", "revoked"]


class MadeToken(BaseModel):
    """A token that was just made."""

    token: str
    """The token itself. It is not shown again."""
    entry: TokenEntry


class Users(BaseModel):
    """Who may do what."""

    public: bool
    """Whether people may read who have not signed in."""
    admins: list[str]
    """Names, and groups as ``group:NAME``; everybody who signs in and is in no list is a viewer."""
    editors: list[str]
    tokens: list[TokenEntry]
    """The newest first."""


class Myself(BaseModel):
    """Who makes the request."""

    name: str
    role: RoleName
    signed_in: bool


class SignedOut(BaseModel):
    """What is left to do for somebody who has signed out."""

    provider: str
    """Where they sign out at the provider as well; empty: nowhere."""


class ActEntry(BaseModel):
    """Something that somebody did."""

    number: int
    moment: datetime
    user: str
    action: str
    subject: str
    detail: str


class ActivityLog(BaseModel):
    """What people did, the newest first."""

    acts: list[ActEntry]
    before: int | None
    """The number to ask for what is older; none: there is nothing older."""
