"""Checkouts of commits that are removed when they are no longer needed, whatever happens."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from perftrend.clients.git import folders, mirrors
from perftrend.clients.git.program import Git

_CHECKOUT_S = 1800.0


@contextmanager
def checked_out(repository: Path, commit: str, place: Path) -> Generator[Path]:
    """Check out a commit in a new folder within ``place``; it is removed afterwards."""
    git = Git(repository)

    def forget(path: Path) -> None:
        # The folder is not removed by git: it refuses what a build made of it, or a kill.
        with mirrors.alone(repository):
            git.try_("worktree", "unlock", str(path))  # one that was killed while it was made stays locked
            git.try_("worktree", "prune", "--expire=now")

    with folders.own(place, f"{commit[:12]}-", removed=forget) as path:
        # Git looks at all worktrees when it makes one, and ends if it meets one that is half made or half
        # removed. The files may take minutes: they come afterwards.
        with mirrors.alone(repository):
            git.run("worktree", "add", "--quiet", "--detach", "--force", "--no-checkout", str(path), commit)
        Git(path).run("reset", "--quiet", "--hard", timeout_s=_CHECKOUT_S)
        yield path
