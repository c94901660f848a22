"""Durations of builds, as recorded in the cache."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from perftrend.builds.cache import Manifest
from perftrend.builds.profile import load
from perftrend.errors import SettingsError
from perftrend.settings import ProjectSettings

_MANIFEST = TypeAdapter(Manifest)


def took_s(project: ProjectSettings) -> list[float]:
    """Return the duration of each cached build of the product, in no order.

    :returns: an empty list if it is unknown: no profile, no cached builds, or the settings are not valid.
    """
    if project.profile is None:
        return []
    try:
        profile = load(project.profile, project.profiles, project.parameters)
    except SettingsError:
        return []
    manifests = project.builds.glob(f"kept/*-{profile.hash}/manifest.json")
    return [found.took_s for found in map(_read, manifests) if found]


def _read(file: Path) -> Manifest | None:
    try:
        return _MANIFEST.validate_json(file.read_bytes())
    except (OSError, ValidationError):
        return None
