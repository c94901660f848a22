"""Validation of the names of members in an archive."""

from __future__ import annotations

import re

_DRIVE = re.compile(r"[A-Za-z]:")
_LONGEST = 1024


def wrong(name: str) -> str:
    """Return what is wrong with the name of a member; empty if it is valid."""
    path = name.replace("\\", "/")
    if path.startswith("/") or _DRIVE.match(path):
        return "is absolute"
    if ".." in path.split("/"):
        return "leads out of the archive"
    if not path or not path.isprintable() or len(path) > _LONGEST:
        return "is not a valid name"
    return ""


def format_name(name: str) -> str:
    """Return a name in a form for messages."""
    return repr(name[:100])
