"""Missing data: traces that had values, and have had none for a number of runs.

Only runs of the jobs that gave the trace its last values count, so that a weekly test is not reported
during the week. A failed or invalid result is not a value either.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from perftrend.model import Samples

_LAST_VALUES = 3
"""The number of last columns with a value that, with those between them, show which jobs measure a trace."""
_LEAST_SHARE = 0.5
"""Fraction of the largest share of a job's columns with a value: a job below it measures something else."""


def silent_traces(
    values: Samples, jobs: Sequence[frozenset[str]], *, runs: int
) -> list[tuple[int, int, int]]:
    """Find the traces with missing data.

    :param values: shape (n, columns), NaN if there is no value.
    :param jobs: the jobs that have runs in each column.
    :param runs: the number of consecutive runs that have to be without a value.
    :returns: for each such trace its row, the column of its last value, and the column of the last of
        these runs.
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
        measuring_jobs = find_measuring_jobs(present[row], jobs)
        without = [number for number in range(column + 1, columns) if measuring_jobs & jobs[number]]
        if len(without) >= runs:
            found.append((row, column, without[runs - 1]))
    return found


def find_measuring_jobs(present: NDArray[np.bool_], jobs: Sequence[frozenset[str]]) -> frozenset[str]:
    """Return the jobs that measure a trace: those in all of its last columns, or else in any of them.

    Runs of several jobs may be of one commit, and share a column then. The columns without a value
    distinguish them: a job that ran without measuring the trace does not belong to it.

    :param present: shape (columns,), whether there is a value.
    :param jobs: the jobs that have runs in each column.
    :returns: an empty set if there is no value.
    """
    values = np.flatnonzero(present)[-_LAST_VALUES:].tolist()
    if not values:
        return frozenset()
    # A single value has no columns between values; then the columns before it have to decide.
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
