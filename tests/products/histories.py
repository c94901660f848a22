"""Small git repositories, made by the git program, the same ones each time."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

_FIRST = 1_767_225_600
"""2026-01-01 in UTC; each commit is an hour later than the one before."""


class History:
    """A repository with a branch ``main``, to which commits are added."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._made = 0
        folder.mkdir(parents=True, exist_ok=True)
        # Without the samples of hooks, which are most of the files of a small repository.
        self.git("init", "--quiet", "--template=", "--initial-branch=main")

    def git(self, *arguments: str, text: str = "") -> str:
        """Run git there, as somebody at example.org, and return what it prints."""
        moment = f"{_FIRST + 3600 * self._made} +0000"
        who = {
            f"GIT_{role}_{part}": value
            for role in ("AUTHOR", "COMMITTER")
            for part, value in (("NAME", "Ada Example"), ("EMAIL", "ada@example.org"), ("DATE", moment))
        }
        own = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "PATH": os.environ["PATH"]}
        done = subprocess.run(
            ["git", "-C", str(self.folder), *arguments],
            env={**own, **who},
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def commit(self, subject: str, files: Mapping[str, str]) -> str:
        """Write files, commit them, and return the hash."""
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", subject)
        self._made += 1
        return self.git("rev-parse", "HEAD")

    def merge(self, branch: str, subject: str) -> str:
        """Merge a branch and return the hash of the merge."""
        self.git("merge", "--quiet", "--no-ff", "--message", subject, branch)
        self._made += 1
        return self.git("rev-parse", "HEAD")
