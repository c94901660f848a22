"""Changes, and which of them have been told before.

A change may appear late: the samples that come after it make it certain. It may also vanish and
come back, or its start may move by a run. A person wants to hear of it once. Nothing is remembered
for that: the earlier analyses are repeated, without the newer samples, and a change that one of
them told of is no news.

Source: "Trend Analysis", sections Anomalies in graphs, and Sample time and analysis time.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from perftrend.analysis.mdl import DEFAULT_FORMULA, Partition, partition
from perftrend.analysis.significance import DEFAULT_SIGNIFICANCE, Significance
from perftrend.model import Better, Change, Direction, Samples

MOVED_RUNS = 2
"""How far the start of a change may move, in samples, and still be the same change."""


def direction(before: float, after: float, better: Better) -> Direction:
    """Return whether a step is bad or good news; the two values must differ."""
    good = (after > before) == (better is Better.HIGHER)
    return Direction.PROGRESSION if good else Direction.REGRESSION


def changes(found: Partition, better: Better) -> tuple[Change, ...]:
    """Return the steps between the groups; one that leaves the average where it was is none."""
    return tuple(
        Change(after.start, before.mean, after.mean, direction(before.mean, after.mean, better))
        for before, after in pairwise(found.groups)
        if before.mean != after.mean
    )


def told(
    samples: Samples,
    change: Change,
    *,
    better: Better,
    formula: str = DEFAULT_FORMULA,
    significance: Significance = DEFAULT_SIGNIFICANCE,
    new_runs: int = 1,
) -> bool:
    """Whether an earlier analysis has told of a change.

    The earlier one may have seen its start up to two samples apart, if its new trend was nearer
    to today's than half of the step: else the trend has moved on, and that is news.

    :param samples: run averages, shape (n,), NaN where a run has none.
    :param change: a step of the partition of ``samples``.
    :param better: which direction of the trace is good.
    :param formula: the description length formula of all analyses.
    :param significance: what the earlier analyses told of.
    :param new_runs: how many of the newest runs no earlier analysis has seen.
    """
    present = np.flatnonzero(np.isfinite(samples))
    rank = {position: index for index, position in enumerate(present.tolist())}

    def same(old: Change) -> bool:
        moved = abs(rank[old.position] - rank[change.position])
        near = abs(change.after - old.after) <= abs(change.after - change.before) / 2
        return old.direction is change.direction and (not moved or (moved <= MOVED_RUNS and near))

    if change.position == present[-1]:
        return False
    first = max(rank[change.position] - MOVED_RUNS, 0)
    stops = [position + 1 for position in present[first:].tolist()]
    # From the newest on: as a rule it was yesterday's analysis that told.
    for stop in reversed(stops):
        if stop > samples.size - new_runs:
            continue
        earlier = samples[:stop]
        found = partition(earlier, formula=formula)
        starts = [group.start for group in found.groups]
        for old in changes(found, better):
            if same(old) and not significance.doubt(found.groups, starts.index(old.position), earlier):
                return True
    return False
