"""Detection of experiments: how a run differs from nightly runs."""

from __future__ import annotations

import hashlib
import os

from perftrend.measure.embedded.drivers import embedded_version
from perftrend.measure.specification import Specification
from perftrend.settings import FILE_VARIABLE, Settings

_LONGEST = 200
"""Maximum length of a name in characters; a longer one is cut and a hash is appended."""


def describe_differences(settings: Settings, spec: Specification, *, file: str | None) -> str:
    """Return how a run differs from those that the settings file describes, such as ``acl_rules=60``.

    Options and environment variables that change how tests are measured count, and so does a checkout with
    local changes if its own router is the device. An empty text means that the run is like the nightly ones.

    :param settings: those of the run.
    :param file: the settings file that the command line names; None: that of the environment.
    """
    environment = {name: value for name, value in os.environ.items() if name == FILE_VARIABLE}
    usual, chosen = _measurement_settings(Settings.load(file, environment)), _measurement_settings(settings)
    names = sorted(name for name in usual | chosen if usual.get(name) != chosen.get(name))
    differences = [f"{name}={chosen[name]}" if name in chosen else f"without {name}" for name in names]
    if spec.device.driver == "embedded" and embedded_version().endswith("-dirty"):
        differences.append(f"device={embedded_version()}")
    label = " ".join(differences)
    if len(label) <= _LONGEST:
        return label
    return f"{label[:_LONGEST]}… {hashlib.sha256(label.encode()).hexdigest()[:8]}"


def _measurement_settings(settings: Settings) -> dict[str, object]:
    """Return the settings that change how tests are measured, by the names that users know."""
    sections = {name: getattr(settings, name).model_dump() for name in ("trial", "search", "soak")}
    of_sections = {
        f"{section}.{name}": "+".join(map(str, value)) if isinstance(value, tuple) else value
        for section, values in sections.items()
        for name, value in values.items()
        if value is not None
    }
    return of_sections | settings.device_options
