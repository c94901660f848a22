"""Checkouts of commits, which are removed after use in every case."""

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
        # Not removed by git, which refuses to remove files of a build, or what a killed process left over.
        with mirrors.alone(repository):
            git.try_("worktree", "unlock", str(path))  # locked if its creation was killed
            git.try_("worktree", "prune", "--expire=now")

    with folders.own(place, f"{commit[:12]}-", removed=forget) as path:
        # Git reads all worktrees when it adds one, and fails on one that is incomplete or partly removed.
        # Checking out the files may take minutes, so it is done after the lock is released.
        with mirrors.alone(repository):
            git.run("worktree", "add", "--quiet", "--detach", "--force", "--no-checkout", str(path), commit)
        Git(path).run("reset", "--quiet", "--hard", timeout_s=_CHECKOUT_S)
        yield path
