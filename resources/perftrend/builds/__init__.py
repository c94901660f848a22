"""Builds of the product under test: from a commit to files that can be measured.

A profile defines the steps (:mod:`perftrend.builds.profile`), :class:`Builds` runs them and caches the
results, and :class:`BackgroundBuilds` builds commits before they are requested.
"""

from __future__ import annotations

from perftrend.builds.builder import BackgroundBuilds, Builds, find_mirror, open_builds, profile_of
from perftrend.builds.cache import BuiltCommit
from perftrend.builds.profile import Profile, load, names

__all__ = [
    "BackgroundBuilds",
    "Builds",
    "BuiltCommit",
    "Profile",
    "find_mirror",
    "load",
    "names",
    "open_builds",
    "profile_of",
]
