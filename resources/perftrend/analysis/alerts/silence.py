"""Values that stopped: a trace that had some, and has had none for so many runs.

Runs are counted of the jobs that gave the trace its last values, so that a test of each week is not silent
during the week. What failed, or cannot be trusted, is no value either.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from perftrend.model import Samples

_LAST_VALUES = 3
"""So many of the last columns with a value, and those between them, tell which jobs measure a trace."""
_LEAST_SHARE = 0.5
"""Of the largest share of a job's columns with a value: a job below that measures something else."""


def silent_traces(
    values: Samples, jobs: Sequence[frozenset[str]], *, runs: int
) -> list[tuple[int, int, int]]:
    """Find the traces that have fallen silent.

    :param values: shape (n, columns), NaN where there is none.
    :param jobs: whose runs each column has.
    :param runs: how many of them in a row have to be without a value.
    :returns: for each such trace its row, the column of its last value, and the column of the last of so
        many runs without one.
    """
    present = np.isfinite(values)
    columns = values.shape[1]
    if not columns:
        return []
    last = columns - 1 - np.argmax(present[:, ::-1], axis=1)
    candidates = np.flatnonzero(present.any(axis=1) & (columns - 1 - last >= runs))
    found = []
    for row in candidates.tolist():
        column = int(last[row])
        whose = measuring(present[row], jobs)
        without = [number for number in range(column + 1, columns) if whose & jobs[number]]
        if len(without) >= runs:
            found.append((row, column, without[runs - 1]))
    return found


def measuring(present: NDArray[np.bool_], jobs: Sequence[frozenset[str]]) -> frozenset[str]:
    """Return the jobs that measure a trace: those that all of its last columns have, or any of them.

    Runs of several jobs may be of one commit, and share a column then. What tells them apart are the columns
    without a value: a job that was there and measured nothing is none of the trace's.

    :param present: shape (columns,), whether there is a value.
    :param jobs: whose runs each column has.
    :returns: none where there is no value.
    """
    values = np.flatnonzero(present)[-_LAST_VALUES:].tolist()
    if not values:
        return frozenset()
    # One value alone leaves open what is between values; then what was before it has to tell.
    columns = range(values[0] if len(values) > 1 else 0, values[-1] + 1)
    shares = {
        job: sum(job in jobs[each] for each in values) / sum(job in jobs[each] for each in columns)
        for job in _there(jobs[each] for each in values)
    }
    largest = max(shares.values(), default=0.0)
    return frozenset(job for job, share in shares.items() if share >= _LEAST_SHARE * largest)


def _there(jobs: Iterable[frozenset[str]]) -> frozenset[str]:
    sets = list(jobs)
    return frozenset.intersection(*sets) or frozenset.union(*sets)
