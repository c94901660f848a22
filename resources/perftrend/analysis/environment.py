"""Differences between the environments of two runs, as candidates for the cause of a change."""

from __future__ import annotations

import re
from collections.abc import Iterable

from perftrend.model import PRODUCT, EnvironmentChange, Run

_JOB = "job"
_TEMPERATURE = re.compile(r"(.*: )?temperature")
_DEGREES = 10
"""A machine is warmer or colder by less than this in any two nights."""


def compare_environments(old: Iterable[Run], new: Iterable[Run]) -> list[EnvironmentChange]:
    """Return what differs between two runs, or between runs of two nights, besides the product.

    These are versions of other programs, the environment of the machines, and the job. A part that one side
    does not know is no difference. Temperatures differ from 10 degrees on.
    """
    before, after = _environment(old), _environment(new)
    # The device has further names, such as that of its program.
    device = (before.get(PRODUCT), after.get(PRODUCT))
    return [
        EnvironmentChange(name, before[name], after[name])
        for name in sorted(before.keys() & after.keys())
        if _differs(name, before[name], after[name]) and (before[name], after[name]) != device
    ]


def _differs(name: str, old: str, new: str) -> bool:
    if _TEMPERATURE.fullmatch(name) and old.isdecimal() and new.isdecimal():
        return abs(int(old) - int(new)) >= _DEGREES
    return old != new


def _environment(runs: Iterable[Run]) -> dict[str, str]:
    """Return versions, environments and jobs of runs by name; several values of one name are joined."""
    values: dict[str, set[str]] = {}
    for run in runs:
        for name, value in (*run.environment.items(), *run.versions.items(), (_JOB, run.job)):
            values.setdefault(str(name), set()).add(str(value))
    return {name: ", ".join(sorted(found)) for name, found in values.items()}
