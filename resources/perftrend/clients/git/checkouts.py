"""A user's checkout of a repository, and the folder of git that belongs to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from perftrend.clients.git.program import Git


@dataclass(frozen=True, slots=True)
class Checkout:
    """A worktree of a repository; or the repository itself, if it is bare."""

    top: Path
    folder: Path
    """The git folder that all worktrees of the repository share."""


def find_checkout(place: Path) -> Checkout | None:
    """Return the checkout that a folder is in; None if there is none."""
    git = Git(place)
    found = git.try_("rev-parse", "--path-format=absolute", "--git-common-dir") if place.is_dir() else None
    if found is None or found.code:
        return None
    folder = Path(found.output.removesuffix("\n"))
    top = git.try_("rev-parse", "--show-toplevel")
    return Checkout(folder if top.code else Path(top.output.removesuffix("\n")), folder)
