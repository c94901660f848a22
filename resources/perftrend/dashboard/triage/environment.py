"""The environment of the runs around a change: what differs may be the cause, instead of the product."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perftrend.dashboard.context import AppContext
from perftrend.dashboard.triage.item_plot import window_of
from perftrend.dashboard.triage.models import EnvironmentChange
from perftrend.model import PRODUCT, Run
from perftrend.store.alerts import Item

_JOB = "job"


def environment_changes(site: AppContext, item: Item) -> list[EnvironmentChange]:
    """Return what differs between the last good run and the first changed one, except the device's commit."""
    columns = site.store.tiles.axis(item.testbed).columns
    window = window_of(columns, item.span, is_own=True)
    if window is None or window.first_changed >= len(columns):
        return []
    old, new = (site.store.tiles.runs(columns[place]) for place in (window.last_good, window.first_changed))
    return differences(_environment(old), _environment(new))


def differences(old: Mapping[str, str], new: Mapping[str, str]) -> list[EnvironmentChange]:
    """Return the parts of two environments that differ, without the device and its other names.

    A part that one of them does not name is not known, which is not a difference.
    """
    device = (old.get(PRODUCT), new.get(PRODUCT))
    return [
        EnvironmentChange(name=name, before=old[name], after=new[name])
        for name in sorted(old.keys() & new.keys())
        if old[name] != new[name] and name != PRODUCT and (old[name], new[name]) != device
    ]


def _environment(runs: Sequence[Run]) -> dict[str, str]:
    """Return the versions and the jobs of runs by name; several values of one name are joined."""
    values: dict[str, set[str]] = {}
    for run in runs:
        for name, value in (*run.versions.items(), (_JOB, run.job)):
            values.setdefault(str(name), set()).add(str(value))
    return {name: ", ".join(sorted(found)) for name, found in values.items()}
