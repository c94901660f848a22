"""What somebody bisects by hand, by ``git bisect``, in a checkout of their own.

The ends are those that it began with: they stay the same from its first step to its last one, while the
refs of git move on.

Source: the manual of git-bisect, sections Alternate terms, Bisect log and --no-checkout.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from perftrend.clients.git.program import Git
from perftrend.errors import UsageError

_SIDES = ("good", "bad")
_JUDGED = ("BISECT_HEAD", "HEAD")


@dataclass(frozen=True, slots=True)
class Underway:
    """A checkout, and the ``git bisect`` that is under way there."""

    checkout: Path
    """The top of its worktree."""
    folder: Path
    """Git's own folder, which all worktrees of the repository share."""
    commit: str
    """The commit that is to be judged, a whole hash."""
    old: str | None = None
    """The first commit that was said to be good, or whatever stands for it; None where none was."""
    new: str | None = None
    """The first one that was said to be bad."""
    refs: tuple[str, ...] = ()
    """Where these ends and what lies between are reached from, if no branch has them."""


def underway(place: Path) -> Underway:
    """Look at a checkout.

    :param place: the checkout, or a folder in it.
    :raises UsageError: if there is none, or no commit is checked out.
    """
    git = Git(place)
    found = git.try_("rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir")
    if found.code:
        raise UsageError(f"{place} is no checkout of a git repository; start this where git bisect runs")
    checkout, folder = map(Path, found.output.splitlines())
    git = Git(checkout)
    # What --no-checkout leaves instead of a checkout goes before.
    places = [git.try_("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}") for ref in _JUDGED]
    commit = next((done.output.strip() for done in places if not done.code), None)
    if commit is None:
        raise UsageError(f"{checkout} has no commit checked out; start this where git bisect runs")
    good, bad = (git.try_("bisect", "terms", f"--term-{side}").output.strip() or side for side in _SIDES)
    log = git.try_("bisect", "log").output
    old, new = _first(log, good), _first(log, bad)
    known = {f"refs/bisect/{good}-{old}", f"refs/bisect/{bad}"}
    refs = git.run("for-each-ref", "--format=%(refname)", "refs/bisect/").split()
    return Underway(checkout, folder, commit, old, new, tuple(ref for ref in refs if ref in known))


def _first(log: str, term: str) -> str | None:
    """Return the first commit that a log calls so, such as ``# bad: [HASH] subject``."""
    found = re.search(rf"^# {re.escape(term)}: \[([0-9a-f]{{40}})\]", log, re.MULTILINE)
    return found[1] if found else None
