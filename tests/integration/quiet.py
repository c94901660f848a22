"""What busy cores do to measurements on real packets, as opposed to defects."""

from __future__ import annotations

import json
from pathlib import Path

_REASONS = ("another process used the cores", "the host withheld the cores", "the generator reached ")
"""How the reasons begin for which a trial is invalid on a machine that has other work."""


def interference(invalid: str) -> str:
    """Return the reason for which a trial is invalid if it is that the cores were not quiet, or nothing."""
    return invalid if any(reason in invalid for reason in _REASONS) else ""


def interference_in(report: Path) -> str:
    """Return the first such reason for which a test of a report has no valid result, or nothing."""
    tests = json.loads(report.read_text())["tests"]
    return next(filter(None, (interference(test["reason"]) for test in tests)), "")
