"""Who uses the dashboard, and what they may do.

An endpoint names who may use it::

    @router.post("/annotations")
    def annotate(user: Editor, …) -> Response: ...

``Viewer`` belongs to every endpoint that shows something, ``Editor`` to those that change what people keep
here, ``Admin`` to those that let others in.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends

from perftrend.dashboard.users.access import (
    administering,
    csrf_token,
    current_user,
    editing,
    gate_of,
    known_user,
    viewing,
)
from perftrend.dashboard.users.gate import Gate, can_sign_in, notices
from perftrend.dashboard.users.roles import NOBODY, Person, Role, User

__all__ = [
    "NOBODY",
    "Admin",
    "Editor",
    "Gate",
    "Person",
    "Role",
    "User",
    "Viewer",
    "can_sign_in",
    "csrf_token",
    "current_user",
    "gate_of",
    "known_user",
    "notices",
]

Viewer = Annotated[User, Depends(viewing)]
Editor = Annotated[User, Depends(editing)]
Admin = Annotated[User, Depends(administering)]
