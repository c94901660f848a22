"""The search of ``--example``: a history that the package creates, with trials short enough to wait for."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from perftrend.builds import example
from perftrend.errors import UsageError
from perftrend.execution import request_validation, scope
from perftrend.measure import specification
from perftrend.settings import Settings

_CHOSEN_BY_IT = ("old", "new", "change", "profile", "repository")
_HOW: Mapping[str, object] = {
    "testbed": "1n-veth",
    "suites": None,
    "tags": ("mrrAND64bANDethip4-ip4base",),
    "trial.duration_s": 0.25,
    "trial.multiplicity": 4,
    "trial.starts": 2,
    # Other processes may use the machine; disturbed trials are measured again.
    "trial.attempts": 8,
    # Excluding a second, small change takes long, and this history has none.
    "bisect.maximum_changes": 1,
    "bisect.maximum_measurements": 40,
}


def apply(settings: Settings, given: argparse.Namespace, overrides: Mapping[str, object]) -> Settings:
    """Create the history, and return the settings that search it.

    :param overrides: the settings from options; they override those of the example.
    :raises UsageError: if an option chooses what is searched.
    """
    for name in _CHOSEN_BY_IT:
        if getattr(given, name) is not None:
            raise UsageError(f"--example creates the commits that it searches; omit --{name}")
    how = {name: value for name, value in _HOW.items() if overrides.get(name) is None}
    settings = request_validation.apply_overrides(settings, how)
    # Raise errors in the selection of tests before creating files.
    scope.select_traces(settings, specification.load(settings.testbed, settings.testbeds))
    made = example.make(settings.project.builds / "example.git")
    searched: Mapping[str, object] = {
        "project.profile": example.PROFILE,
        "project.profiles": None,
        "project.parameters": {},
        "project.repository": str(made.folder),
        "bisect.old": made.old,
        "bisect.new": made.new,
        "bisect.change": None,
    }
    return request_validation.apply_overrides(settings, searched)
