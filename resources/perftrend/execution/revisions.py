"""The two commits that a per-patch test compares, and the checkout of the product in which a job is started.

The commits are a patch set and its parent, or two named ones.

A job writes nothing into a checkout of the product: unless a setting says otherwise, its files are in
``perftrend`` within git's own folder, which git neither lists nor changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from perftrend import console
from perftrend.builds import profile_of
from perftrend.clients.gerrit import Gerrit, GerritChange, PatchSet, connect
from perftrend.clients.git import Address, Checkout, Repository, find_checkout
from perftrend.errors import ServiceError, UsageError
from perftrend.settings import ProjectSettings, Settings
from perftrend.text import line

_FOLDER = "perftrend"


def of_working_directory(settings: Settings) -> Settings:
    """Return the settings for a job of a user, who may have started it in a checkout of the product.

    A program that measures itself comes from there if neither the settings nor its profile name a repository.

    :raises SettingsError: if no profile is set, or it is not valid.
    """
    profile = profile_of(settings.project)
    source = settings.project.repository or profile.repository
    checkout = find_checkout(Path.cwd())
    if checkout is None or (source is None and profile.measure is None):
        return settings
    if source is None:
        return in_checkout(settings, checkout)
    product = find_checkout(Path(Address.of(source).url))
    is_product = product is not None and product.folder == checkout.folder
    return write_into_git_folder(settings, checkout) if is_product else settings


def in_checkout(settings: Settings, checkout: Checkout) -> Settings:
    """Return the settings with a checkout as the product."""
    project = settings.project.model_copy(update={"repository": str(checkout.top)})
    return write_into_git_folder(settings.model_copy(update={"project": project}), checkout)


def write_into_git_folder(settings: Settings, checkout: Checkout) -> Settings:
    """Return the settings with git's folder as the place of files, except of folders that are set."""
    own = checkout.folder / _FOLDER

    def moved(section: Any, *names: str) -> dict[str, Path]:  # noqa: ANN401 - any section of the settings
        return {name: own / getattr(section, name) for name in names if name not in section.model_fields_set}

    return settings.model_copy(
        update={
            "project": settings.project.model_copy(update=moved(settings.project, "builds")),
            "bisect": settings.bisect.model_copy(update=moved(settings.bisect, "sessions")),
            **moved(settings, "archive", "report"),
        }
    )


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
