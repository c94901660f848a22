"""A user's checkout of a repository, and the manual bisection by ``git bisect`` in progress there.

The ends of a bisection are those at its start: they stay the same from its first step to its last one, while
git's refs move.

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


@dataclass(frozen=True, slots=True)
class Underway:
    """A checkout, and the ``git bisect`` in progress there."""

    checkout: Checkout
    commit: str
    """Full hash of the commit to be judged."""
    old: str | None = None
    """The first commit marked good, or with the alternate term for it; None if there is none."""
    new: str | None = None
    """The first commit marked bad, or with the alternate term for it; None if there is none."""
    refs: tuple[str, ...] = ()
    """Refs that reach these ends and the commits between them, if no branch does."""


def underway(place: Path) -> Underway:
    """Return the ``git bisect`` in progress in a checkout.

    :param place: the checkout, or a folder in it.
    :raises UsageError: if there is no checkout, or no commit is checked out.
    """
    checkout = find_checkout(place)
    if checkout is None:
        raise UsageError(f"{place} is not a checkout of a git repository; start this where git bisect runs")
    git = Git(checkout.top)
    # The ref that --no-checkout sets instead of a checkout takes precedence.
    places = [git.try_("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}") for ref in _JUDGED]
    commit = next((done.output.strip() for done in places if not done.code), None)
    if commit is None:
        raise UsageError(f"{checkout.top} has no commit checked out; start this where git bisect runs")
    good, bad = (git.try_("bisect", "terms", f"--term-{side}").output.strip() or side for side in _SIDES)
    log = git.try_("bisect", "log").output
    old, new = _first(log, good), _first(log, bad)
    known = {f"refs/bisect/{good}-{old}", f"refs/bisect/{bad}"}
    refs = git.run("for-each-ref", "--format=%(refname)", "refs/bisect/").split()
    return Underway(checkout, commit, old, new, tuple(ref for ref in refs if ref in known))


def _first(log: str, term: str) -> str | None:
    """Return the first commit that a log lists under a term, such as ``# bad: [HASH] subject``."""
    found = re.search(rf"^# {re.escape(term)}: \[([0-9a-f]{{40}})\]", log, re.MULTILINE)
    return found[1] if found else None
