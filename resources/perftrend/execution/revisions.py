"""The two commits that a per-patch test compares: a patch set and its parent, or two named commits."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from perftrend import console
from perftrend.clients.gerrit import Gerrit, GerritChange, PatchSet, connect
from perftrend.clients.git import Repository
from perftrend.errors import ServiceError, UsageError
from perftrend.settings import ProjectSettings, Settings
from perftrend.text import line


@dataclass(frozen=True, slots=True)
class ReviewedPatch:
    """A patch set in Gerrit."""

    gerrit: Gerrit
    change: GerritChange
    patch_set: PatchSet

    @property
    def page(self) -> str:
        """The URL of the change's page."""
        return self.gerrit.page(self.change)


@dataclass(frozen=True, slots=True)
class Revisions:
    """The commits to compare, by whole hashes."""

    parent: str
    patch: str
    is_merge: bool = False
    """Whether the patch is a merge, so that the parent is its first one of several."""


def review(settings: Settings, number: int | None, patch_set: int | None = None) -> ReviewedPatch | None:
    """Return a patch set of a change in Gerrit; None if no change is requested.

    :param number: of the change.
    :param patch_set: its number; None for the newest.
    :raises SettingsError: if the settings name no Gerrit.
    :raises ServiceError: if Gerrit does not answer.
    """
    if number is None:
        return None
    gerrit = connect(settings.gerrit)
    change = gerrit.change(number)
    return ReviewedPatch(gerrit, change, change.patch_set(patch_set) if patch_set else change.current)


def project(settings: Settings, reviewed: ReviewedPatch | None) -> ProjectSettings:
    """Return the settings of the product; if they name no repository, with that of the change."""
    if settings.project.repository or reviewed is None:
        return settings.project
    url = f"{reviewed.gerrit.url}/{quote(reviewed.change.project)}"
    return settings.project.model_copy(update={"repository": url})


def of_review(repository: Repository, reviewed: ReviewedPatch) -> Revisions:
    """Fetch a patch set and return it with its parent.

    :raises ServiceError: if it cannot be fetched, or is not the commit that Gerrit reports.
    :raises UsageError: if it has no parent.
    """
    [fetched] = repository.fetch(reviewed.patch_set.ref)
    if fetched != reviewed.patch_set.revision:
        raise ServiceError(
            f"{reviewed.patch_set.ref} is {fetched[:12]} in the repository, and in Gerrit "
            f"{reviewed.patch_set.revision[:12]}; is project.repository that of the change?"
        )
    return _with_parent(repository, fetched)


def resolve(repository: Repository, old: str | None, new: str) -> Revisions:
    """Return two commits that the user named: the older one is the parent, if they are on one branch.

    :param old: the commit to compare with; None for the parent.
    :raises UsageError: if one is not in the repository, or both are the same.
    """
    patch = repository.resolve_name(new)
    if old is None:
        return _with_parent(repository, patch)
    parent = repository.resolve_name(old)
    if parent == patch:
        raise UsageError(f"--old {old} and --new {new} are the same commit; name two")
    if repository.is_ancestor(patch, parent):
        warn_of_swap(old, new)
        parent, patch = patch, parent
    return Revisions(parent, patch)


def warn_of_swap(old: str, new: str) -> None:
    """Print that two commits are used in the order of the history, not in the given one."""
    console.warn(f"--old {line(old)} is newer than --new {line(new)}; they are used the other way round")


def _with_parent(repository: Repository, patch: str) -> Revisions:
    parents = repository.commit(patch).parents
    if not parents:
        raise UsageError(
            f"{patch[:12]} is the first commit of its repository: it has no parent to compare with"
        )
    return Revisions(parents[0], patch, is_merge=len(parents) > 1)
