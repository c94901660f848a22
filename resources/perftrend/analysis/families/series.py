"""The changes that families of traces share, from the series of a testbed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from perftrend.analysis.families.detection import find_family_changes
from perftrend.model import Better, Run, Samples, Series, TraceKey

if TYPE_CHECKING:
    from perftrend.analysis.reference import ReferenceFinding

RECENT_RUNS = 40
"""Changes that began earlier are not reported any more."""
_SAME_FOR_ALL = frozenset({"testbed", "experiment"})


@dataclass(frozen=True, slots=True)
class SharedChange:
    """A change that traces with common values of parameters share."""

    parameters: tuple[tuple[str, str], ...]
    """The names and values that they have in common; empty: all traces."""
    traces: tuple[TraceKey, ...]
    last_good: Run
    """The last run before the change."""
    first_changed: Run
    change: float
    """Relative to before and to all other traces; positive is better."""
    low: float
    """Lower end of its 95 % interval."""
    high: float
    is_new: bool
    """Whether it is found by the newest run and was not found without it."""
    reference: ReferenceFinding | None = None
    """What the reference build says about a change of all traces; None: nothing is known."""


def find_shared_changes(series: Sequence[Series]) -> list[SharedChange]:
    """Return the recent changes that families of traces share, the clearest first.

    :param series: of one testbed.
    """
    runs, values = _matrix(series)
    parameters = [
        {name: value for name, value in one.key.parameters if name not in _SAME_FOR_ALL} for one in series
    ]
    lower = np.array([one.better is Better.LOWER for one in series], dtype=np.bool_)
    found = find_family_changes(values, parameters, lower_is_better=lower)
    recent = [each for each in found if each.run >= len(runs) - RECENT_RUNS]
    if not recent:
        return []
    earlier = find_family_changes(values[:-1], parameters, lower_is_better=lower)
    known = {(each.family.parameters, each.change > 0) for each in earlier}
    return [
        SharedChange(
            each.family.parameters,
            tuple(series[place].key for place in each.family.members.tolist()),
            runs[each.run - 1],
            runs[each.run],
            each.change,
            each.low,
            each.high,
            (each.family.parameters, each.change > 0) not in known,
        )
        for each in recent
    ]


def _matrix(series: Sequence[Series]) -> tuple[list[Run], Samples]:
    """Return all runs in the order of time, and the values of all series, shape (runs, series)."""
    by_identity = {_identity(run): run for one in series for run in one.runs}
    runs = [by_identity[each] for each in sorted(by_identity)]
    place_of = {_identity(run): place for place, run in enumerate(runs)}
    values = np.full((len(runs), len(series)), np.nan)
    for column, one in enumerate(series):
        values[[place_of[_identity(run)] for run in one.runs], column] = one.samples
    return runs, values


def _identity(run: Run) -> tuple[datetime, str, int]:
    return run.started, run.job, run.build
