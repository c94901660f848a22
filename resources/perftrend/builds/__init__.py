"""Builds of the product under test: from a commit to files that can be measured.

A profile defines the steps (:mod:`perftrend.builds.profile`), :class:`Builds` runs them and caches the
results, and :class:`Ahead` builds commits before they are requested.
"""

from __future__ import annotations

from perftrend.builds.ahead import Ahead
from perftrend.builds.builder import Builds, opened, profile_of
from perftrend.builds.cache import Built
from perftrend.builds.profile import Profile, load, names

__all__ = ["Ahead", "Builds", "Built", "Profile", "load", "names", "opened", "profile_of"]
