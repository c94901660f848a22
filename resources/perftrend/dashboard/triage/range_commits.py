"""Commits of the range of an item, with authors and subjects if there is a mirror of the repository.

The store only has the hashes of measured commits. The jobs of a project keep a mirror of its repository; the
dashboard reads what is in it, and never fetches. A page waits for git only for a moment, and only the first
time that a range is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

from perftrend.builds import find_mirror
from perftrend.clients.git import Commit, Repository
from perftrend.dashboard import links
from perftrend.dashboard.context import AppContext
from perftrend.dashboard.triage.models import CommitView
from perftrend.errors import PerftrendError
from perftrend.settings import ProjectSettings
from perftrend.store.alerts import Item, Span
from perftrend.store.tiles import TileColumn

MOST_COMMITS = 100
_READ_S = 0.5
_RANGES = 256
"""Number of ranges whose commits are cached."""
_WHOLE_HASH = 40

Extent: TypeAlias = Literal["all", "newest", "measured"]


def commits_of(site: AppContext, item: Item) -> tuple[list[CommitView], Extent]:
    """Return the commits of the range, the oldest first, and which ones these are."""
    columns = site.store.tiles.axis(item.testbed).columns
    span = item.span
    measured = [column for column in columns if span.last_good < column.started <= span.first_changed]
    known = () if item.kind == "stopped" else _read_commits(site.settings.project, span)
    if not known:
        return _views(site, item, [(column, None) for column in measured[:MOST_COMMITS]]), "measured"
    shown = known[::-1][-MOST_COMMITS:]
    pairs = [(_find_column(measured, commit), commit) for commit in shown]
    # Such as the last good commit, measured again with the change.
    others = [column for column in measured if column not in [found for found, _ in pairs]]
    return (
        _views(site, item, [*((column, None) for column in others[:MOST_COMMITS]), *pairs]),
        "newest" if len(known) > MOST_COMMITS else "all",
    )


def _find_column(measured: Sequence[TileColumn], commit: Commit) -> TileColumn | None:
    """Return the first measurement of a commit; None: it was not measured."""
    return next((each for each in measured if each.revision and commit.hash.startswith(each.revision)), None)


def _views(
    site: AppContext, item: Item, pairs: Sequence[tuple[TileColumn | None, Commit | None]]
) -> list[CommitView]:
    # Annotations have the hash as the run named it.
    names = [column.revision if column else commit.hash if commit else "" for column, commit in pairs]
    annotations = site.store.annotations.of(names, testbed=item.testbed)
    return [
        CommitView(
            commit=commit.hash if commit else name,
            subject=commit.subject if commit else "",
            author=commit.author if commit else "",
            started=column.started if column else None,
            link=links.of_commit(commit.hash if commit else name, site.settings),
            annotations=[each.text for each in annotations.get(name, ())],
        )
        for name, (column, commit) in zip(names, pairs, strict=True)
    ]


def _read_commits(project: ProjectSettings, span: Span) -> tuple[Commit, ...]:
    """Return the newest commits of a range, the newest first; none if they are not known."""
    old, new = span.last_good_revision, span.first_changed_revision
    if not old or not new or old == new:
        return ()
    try:
        mirror = find_mirror(project, timeout_s=_READ_S)
        return _read(mirror.folder, old, new) if mirror else ()
    except PerftrendError:
        # The mirror does not have these commits yet, or git takes too long: tried again the next time.
        return ()


@lru_cache(maxsize=_RANGES)
def _read(folder: Path, old: str, new: str) -> tuple[Commit, ...]:
    """Return the newest commits of a range in a mirror; the commits of a range never change.

    :raises PerftrendError: if they cannot be read.
    """
    mirror = Repository.local(folder, timeout_s=_READ_S)
    whole = (each if len(each) == _WHOLE_HASH else mirror.resolve(each) for each in (old, new))
    return mirror.newest(*whole, limit=MOST_COMMITS + 1)
