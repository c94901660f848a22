"""Authentication and authorization of the dashboard's users.

An endpoint declares the role that it requires::

    @router.post("/annotations")
    def annotate(user: Editor, …) -> Response: ...

Endpoints that show data require ``Viewer``, endpoints that change data of users require ``Editor``, and
endpoints that manage access require ``Admin``.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends

from perftrend.dashboard.auth.authentication import Authenticator, can_sign_in, notices
from perftrend.dashboard.auth.authorization import (
    administering,
    authenticator_of,
    csrf_token,
    current_user,
    editing,
    known_user,
    viewing,
)
from perftrend.dashboard.auth.roles import ANONYMOUS, Person, Role, User

__all__ = [
    "ANONYMOUS",
    "Admin",
    "Authenticator",
    "Editor",
    "Person",
    "Role",
    "User",
    "Viewer",
    "authenticator_of",
    "can_sign_in",
    "csrf_token",
    "current_user",
    "known_user",
    "notices",
]

Viewer = Annotated[User, Depends(viewing)]
Editor = Annotated[User, Depends(editing)]
Admin = Annotated[User, Depends(administering)]
