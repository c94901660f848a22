"""Columns: the runs of a testbed that count as one point in time.

The columns of a testbed are in the order in which they were first measured, like its series. Runs of
one commit by different jobs share a column, so that a night that is divided among jobs has no gaps. If
a job measures a commit again, that is another column of the same commit. Otherwise a change of the
testbed, while the product stays the same, would disappear in an average. A run whose commit is not known
is a column of its own, because a version such as ``6.1.0`` stays the same while the product changes.

Each testbed has its own columns: testbeds seldom measure the same commits, and every trace would have
gaps where another testbed measured. :func:`common` aligns the columns of several testbeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, order=True)
class AxisEntry:
    """The part of a run that determines its column; entries of a testbed sort by time."""

    started: datetime
    build: int
    job: str
    run_id: int
    revision: str
    """Empty if it is not known."""


@dataclass(frozen=True, slots=True)
class TileColumn:
    """The commit and the runs of one point of scale 0."""

    revision: str
    """The commit of the product; empty if it is not known."""
    started: datetime
    """When its first run began, UTC."""
    runs: tuple[int, ...]
    """The runs' ids, in the order of time."""


def assign_columns(entries: Sequence[AxisEntry]) -> list[int]:
    """Return the number of the column of each run, from 0.

    :param entries: all runs of one testbed, sorted.
    """
    numbers = count()
    opened: dict[str, list[int]] = {}
    repeats: Counter[tuple[str, str]] = Counter()
    found = []
    for entry in entries:
        if not entry.revision:
            found.append(next(numbers))
            continue
        columns = opened.setdefault(entry.revision, [])
        repeat = repeats[entry.revision, entry.job]
        repeats[entry.revision, entry.job] += 1
        if repeat == len(columns):
            columns.append(next(numbers))
        found.append(columns[repeat])
    return found


def columns_of(entries: Sequence[AxisEntry]) -> list[TileColumn]:
    """Return the columns of a testbed.

    :param entries: all its runs, sorted.
    """
    grouped: dict[int, list[AxisEntry]] = {}
    for number, entry in zip(assign_columns(entries), entries, strict=True):
        grouped.setdefault(number, []).append(entry)
    return [
        TileColumn(runs[0].revision, runs[0].started, tuple(run.run_id for run in runs))
        for runs in grouped.values()
    ]


def common(axes: Sequence[Sequence[TileColumn]]) -> list[NDArray[np.intp]]:
    """Align the columns of several testbeds, each commit once.

    The n-th columns of a commit become one. The result is sorted by the earliest start in any testbed.

    :returns: for each testbed an array of the same length: the number of its column, -1 where it has none.
    """
    begun: dict[tuple[object, ...], datetime] = {}
    keyed: list[dict[tuple[object, ...], int]] = []
    for place, columns in enumerate(axes):
        repeats: Counter[str] = Counter()
        keys: dict[tuple[object, ...], int] = {}
        for number, column in enumerate(columns):
            # A column without a commit has no counterpart on another testbed.
            key = (column.revision, repeats[column.revision]) if column.revision else ("", place, number)
            repeats[column.revision] += 1
            keys[key] = number
            begun[key] = min(begun.get(key, column.started), column.started)
        keyed.append(keys)
    order = sorted(begun, key=begun.__getitem__)
    return [np.array([keys.get(key, -1) for key in order], dtype=np.intp) for keys in keyed]
