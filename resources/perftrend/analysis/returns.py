"""Levels that a trace reached before and left again: what a machine does by itself is no news.

A machine in one of two modes, each for days, makes steps that are as clear as those of a commit. The
history tells them apart: a trace that was at least half as far away twice before, and came back both times,
will probably come back again. Its next visit is news when it lasts much longer than those did.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perftrend.analysis.significance import sample_count
from perftrend.model import Group, Samples

_LEAST_VISITS = 2
"""One return may be a change that was taken back."""
_PART = 0.5
"""Of a step: a level that lies at least so far on its way was as far away."""
_LEVEL_RUNS = 3
"""Fewer are bad runs, and no level: the trace has not left for them."""
_LASTING = 5.0
"""Averages of the earlier visits after which a visit is none: by chance one of 150 lasts so long."""


def visits(groups: Sequence[Group], index: int, samples: Samples) -> list[int]:
    """Return how many runs each earlier visit to the side of a group lasted, in the order of time.

    :param groups: all groups of the partition of ``samples``.
    :param index: the group after the step, from 1.
    :param samples: run averages, shape (n,), NaN where a run has none.
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
    """Say that a step leads where the trace was before; empty where it does not, or stays for longer.

    :returns: the end of a sentence for a person.
    """
    earlier = visits(groups, index, samples)
    if len(earlier) < _LEAST_VISITS:
        return ""
    stay = sum(sample_count(group, samples) for group in groups[index:])
    if stay > _LASTING * sum(earlier) / len(earlier):
        return ""
    return f"as {len(earlier)} times before, and the trace came back"
