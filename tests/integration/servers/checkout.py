"""This checkout in the workspace of a job, as the git plugin of a real Jenkins puts it there."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def make_repository(folder: Path) -> Path:
    """Make a repository with this checkout as it is, what is not committed included."""
    listed = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() or (ROOT / name).is_symlink():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name, follow_symlinks=False)
    git(folder, "init", "--quiet", "--initial-branch=master")
    git(folder, "add", "--all", "--force")
    git(folder, "-c", "user.name=test", "-c", "user.email=test@example.org", "commit", "--quiet", "-m", "All")
    return folder


def check_out(url: str, workspace: Path) -> None:
    """Clone a repository into a workspace, where ``./run`` finds an environment in place."""
    git(workspace.parent, "clone", "--quiet", url, str(workspace))
    _lend_environment(workspace)


def _lend_environment(workspace: Path) -> None:
    """Let ``./run`` find this environment in place, so that it does not install one for a minute.

    Should ``./run`` think otherwise it makes one of its own, and the test is only slower.
    """
    python = workspace / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    paths = os.pathsep.join(str(workspace / name) for name in (".", "resources"))
    python.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(paths)} exec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    script = (workspace / "run").read_text()
    functions, _, start = script.partition("# ---- start\n")
    (programs,) = re.findall(r"^programs='.*'$", start, re.MULTILINE)
    stamp = f"{functions}\n{programs}\nvenv=$here/.venv\nstate >$venv/stamp"
    subprocess.run(["sh", "-c", stamp, workspace / "run"], check=True)
