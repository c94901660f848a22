"""The environment of the jobs and servers that tests start."""

from __future__ import annotations

import os

_OTHERS = ("PERFTREND_", "BUILD_", "JOB_NAME", "GERRIT_")


def inherited() -> dict[str, str]:
    """Return this environment without settings, and without what Jenkins tells its builds."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_OTHERS)}
