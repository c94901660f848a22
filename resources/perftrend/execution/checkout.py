"""The product in the checkout in which a job is started.

A job writes nothing into a checkout of the product: unless a setting says otherwise, its files are in
``perftrend`` within git's own folder, which git neither lists nor changes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from perftrend.builds import profile_of
from perftrend.clients.git import Address, Checkout, find_checkout
from perftrend.settings import Settings

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
