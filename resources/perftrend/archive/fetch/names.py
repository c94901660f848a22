"""Names of members that an archive gives: which of them are none."""

from __future__ import annotations

import re

_DRIVE = re.compile(r"[A-Za-z]:")
_LONGEST = 1024


def wrong(name: str) -> str:
    """Say what is wrong with the name of a member; empty if nothing is."""
    path = name.replace("\\", "/")
    if path.startswith("/") or _DRIVE.match(path):
        return "is absolute"
    if ".." in path.split("/"):
        return "leads out of the archive"
    if not path or not path.isprintable() or len(path) > _LONGEST:
        return "is no name"
    return ""


def shown(name: str) -> str:
    """Return a name as a message can show it."""
    return repr(name[:100])
