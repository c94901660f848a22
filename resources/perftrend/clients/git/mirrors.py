"""Bare mirrors of repositories, each in a folder that several processes may use.

A mirror is created in a temporary folder and renamed when it is complete. An incomplete one is never used.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from perftrend.clients.git.addresses import Address
from perftrend.clients.git.program import Git
from perftrend.errors import UsageError
from perftrend.files import hold_lock

_EVERYTHING = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")


def refresh(address: Address, folder: Path, *, timeout_s: float) -> None:
    """Create a mirror, or fetch new commits into it.

    :raises UsageError: for a shallow clone.
    :raises ServiceError: if fetching fails.
    """
    refs = [*_EVERYTHING, *_head(address)]
    with alone(folder):
        if not folder.exists():
            _make(address, refs, folder, timeout_s)
        else:
            _remove_begun(folder)
            fetch(Git(folder), address, refs, timeout_s=timeout_s, prune=True)


@contextmanager
def alone(folder: Path) -> Generator[None]:
    """Hold the exclusive lock for changes to the refs or the list of worktrees of a repository."""
    with hold_lock(folder.with_name(f"{folder.name}.lock")):
        yield


def fetch(
    git: Git,
    address: Address | str,
    refs: Iterable[str],
    *,
    timeout_s: float,
    prune: bool = False,
) -> None:
    """Fetch refs.

    :param address: the repository to fetch from, or the name of a remote.
    :param refs: refspecs.
    :param prune: whether local refs are removed that the remote no longer has.
    :raises ServiceError: if fetching fails.
    """
    where = address.url if isinstance(address, Address) else address
    how = ["--quiet", "--force", "--no-tags", "--no-write-fetch-head", *(["--prune"] if prune else [])]
    git.run_remote(address, ["fetch", *how, "--end-of-options", where, *refs], timeout_s=timeout_s)


def _head(address: Address) -> list[str]:
    """Return the refspec for the commit that is checked out in a repository on this machine.

    It may be on no branch, such as during a rebase or a manual bisection.

    :raises UsageError: for a shallow clone, since git would silently omit a part of it.
    """
    path = Path(address.url)
    git = Git(path)
    if not path.is_dir():
        return []
    if git.try_("rev-parse", "--is-shallow-repository").output.strip() == "true":
        raise UsageError(
            f"{path} has only the newest part of its history; fetch the rest with git fetch --unshallow"
        )
    has_commit = git.try_("rev-parse", "--verify", "--quiet", "HEAD^{commit}").code == 0
    return ["+HEAD:refs/perftrend/HEAD"] if has_commit else []


def _make(address: Address, refs: Iterable[str], folder: Path, timeout_s: float) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Left over by a killed process; no other process creates this mirror now, since the lock is held.
    for begun in folder.parent.glob(f"{folder.name}.*.part"):
        shutil.rmtree(begun, ignore_errors=True)
    begun = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", suffix=".part", dir=folder.parent))
    try:
        git = Git(begun)
        git.run("init", "--bare", "--quiet", "--template=", ".")
        fetch(git, address, refs, timeout_s=timeout_s, prune=True)
        begun.rename(folder)
    except BaseException:
        shutil.rmtree(begun, ignore_errors=True)
        raise


def _remove_begun(mirror: Path) -> None:
    """Remove files left over by a killed process, which would make the next fetch fail or fill the disk.

    The caller holds the mirror's lock, so no other process changes its refs, packs or worktrees.
    """
    for pattern in ("*.lock", "refs/**/*.lock", "objects/pack/tmp_*"):
        for path in mirror.glob(pattern):
            path.unlink(missing_ok=True)
    for worktree in mirror.glob("worktrees/*"):
        if not _is_whole(worktree):
            shutil.rmtree(worktree)


def _is_whole(worktree: Path) -> bool:
    """Return whether git has written all of a worktree that a fetch reads; its HEAD is all zeros at first."""
    files = [worktree / name for name in ("gitdir", "commondir", "HEAD")]
    return all(file.is_file() and file.read_text().strip("0\n") for file in files)
