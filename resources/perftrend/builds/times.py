"""How long builds took, as those that are kept tell it."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from perftrend.builds.cache import Manifest
from perftrend.builds.profile import load
from perftrend.errors import SettingsError
from perftrend.settings import ProjectSettings

_MANIFEST = TypeAdapter(Manifest)


def took_s(project: ProjectSettings) -> list[float]:
    """Return how long each kept build of the product took, in no order.

    :returns: nothing where nobody can know: no profile, none kept, or the settings are wrong.
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
