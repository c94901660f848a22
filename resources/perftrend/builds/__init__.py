"""Builds of the product under test: how a commit becomes something that can be measured.

A profile says how (:mod:`perftrend.builds.profile`), :class:`Builds` does it and keeps what was built, and
:class:`Ahead` does it before it is asked for.
"""

from __future__ import annotations

from perftrend.builds.ahead import Ahead
from perftrend.builds.builder import Builds, opened, profile_of
from perftrend.builds.cache import Built
from perftrend.builds.profile import Profile, load, names

__all__ = ["Ahead", "Builds", "Built", "Profile", "load", "names", "opened", "profile_of"]
