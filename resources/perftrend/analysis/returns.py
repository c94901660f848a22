"""Levels that a trace reached before and left again: mode changes of a machine are not reported.

A machine in one of two modes, each for days, makes steps that are as clear as those of a commit. The
history distinguishes them: a trace that was at least half as far away twice before, and came back both times,
will probably come back again. Its next visit is reported if it lasts much longer than those did.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perftrend.analysis.significance import sample_count
from perftrend.model import Group, Samples

_LEAST_VISITS = 2
"""One return may be a change that was undone."""
_PART = 0.5
"""Fraction of a step: a level at or beyond this part of the way counts as reached."""
_LEVEL_RUNS = 3
"""Fewer runs are bad runs, not a level: the trace has not left its level for them."""
_LASTING = 5.0
"""A stay longer than this number of average earlier visits is not a visit: by chance one of 150 is."""


def visits(groups: Sequence[Group], index: int, samples: Samples) -> list[int]:
    """Return the number of runs of each earlier visit to the side of a group, in the order of time.

    :param groups: all groups of the partition of ``samples``.
    :param index: the group after the step, from 1.
    :param samples: run averages, shape (n,), NaN if a run has none.
    """
    before, after = groups[index - 1].mean, groups[index].mean
    edge = before + _PART * (after - before)
    sizes: list[int] = []
    was_there = False
    for group in groups[: index - 1]:
        if sample_count(group, samples) < _LEVEL_RUNS:
            continue
        is_there = (group.mean - edge) * np.sign(after - before) >= 0
        if is_there:
            sizes[len(sizes) - was_there :] = [
                sum(sizes[len(sizes) - was_there :]) + sample_count(group, samples)
            ]
        was_there = bool(is_there)
    return sizes


def doubt_of_return(groups: Sequence[Group], index: int, samples: Samples) -> str:
    """Return that a step leads to an earlier level; empty if it does not, or lasts longer than the visits.

    :returns: the end of a sentence for users.
    """
    earlier = visits(groups, index, samples)
    if len(earlier) < _LEAST_VISITS:
        return ""
    stay = sum(sample_count(group, samples) for group in groups[index:])
    if stay > _LASTING * sum(earlier) / len(earlier):
        return ""
    return f"as {len(earlier)} times before, and the trace came back"
