"""Authentication and authorization of the dashboard's users.

An endpoint declares the role that it requires. Endpoints that show data require ``Viewer``, and endpoints
that manage tokens and all sessions require ``Admin``. Endpoints that change data require ``TestbedEditor``,
which is an editor of any testbed, and then call ``require_editor`` with the testbeds of that data::

    @router.post("/runs/invalidate")
    def invalidate(user: TestbedEditor, …) -> Response:
        require_editor(user, [run.testbed])
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends

from perftrend.dashboard.auth.authentication import Authenticator, can_sign_in, notices
from perftrend.dashboard.auth.authorization import (
    administering,
    administering_testbed,
    authenticator_of,
    csrf_token,
    current_user,
    editing_testbed,
    known_user,
    require_admin,
    require_editor,
    viewing,
)
from perftrend.dashboard.auth.users import ANONYMOUS, Person, Role, User

__all__ = [
    "ANONYMOUS",
    "Admin",
    "Authenticator",
    "Person",
    "Role",
    "TestbedAdmin",
    "TestbedEditor",
    "User",
    "Viewer",
    "authenticator_of",
    "can_sign_in",
    "csrf_token",
    "current_user",
    "known_user",
    "notices",
    "require_admin",
    "require_editor",
]

Viewer = Annotated[User, Depends(viewing)]
TestbedEditor = Annotated[User, Depends(editing_testbed)]
TestbedAdmin = Annotated[User, Depends(administering_testbed)]
Admin = Annotated[User, Depends(administering)]
