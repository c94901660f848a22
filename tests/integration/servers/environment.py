"""The environment of the jobs and servers that tests start."""

from __future__ import annotations

import os

from perftrend import sandbox

_OTHERS = ("PERFTREND_", "BUILD_", "JOB_NAME", "GERRIT_")


def inherited() -> dict[str, str]:
    """Return this environment without settings, and without what Jenkins tells its builds.

    On a machine that permits no sandbox, as in a container, changes under review are trusted.
    """
    trusted = {"PERFTREND_PROJECT_TRUSTED": "yes"} if sandbox.unusable() else {}
    return trusted | {name: value for name, value in os.environ.items() if not name.startswith(_OTHERS)}
