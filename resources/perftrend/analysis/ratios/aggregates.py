"""One number for each row of the table, by which the rows are sorted.

g are the gains of a row's cells, logarithms of ratios that are above zero if left is better:

* ``weight``: Σ |g|: the total difference, in either direction; a ratio and its inverse weigh the same.
* ``mean``: the average of g: the logarithm of the geometric mean of the ratios.
* ``worst`` and ``best``: the least and the greatest g.
* ``count``: the number of cells with a ratio.

Source: "Skia Perf: Design", section Comparing bench results across verticals, for sorting rows by their
aggregated performance.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from perftrend.model import Samples

AGGREGATES = ("weight", "worst", "best", "mean", "count")
"""The sort criteria of rows; for ``weight``, ``best`` and ``count`` the largest come first."""
_LARGEST_FIRST = frozenset({"weight", "best", "count"})


def aggregate(by: str, gains: Samples, row_of: NDArray[np.intp], rows: int) -> Samples:
    """Return one number for each row.

    :param by: one of ``AGGREGATES``.
    :param gains: the gains of n cells, NaN if a cell has no ratio.
    :param row_of: their rows, shape (n,).
    :returns: shape (rows,); if a row has no cell with a ratio, NaN, or 0 for ``count``.
    """
    known = np.isfinite(gains)
    gains, row_of = gains[known], row_of[known]
    counts = np.bincount(row_of, minlength=rows)
    if by == "count":
        return counts.astype(np.float64)
    if by in {"worst", "best"}:
        fold, start = (np.minimum, np.inf) if by == "worst" else (np.maximum, -np.inf)
        found = np.full(rows, start)
        fold.at(found, row_of, gains)
    else:
        sizes = np.abs(gains) if by == "weight" else gains
        found = np.bincount(row_of, weights=sizes, minlength=rows)
        if by == "mean":
            found = found / np.maximum(counts, 1)
    return np.where(counts > 0, found, np.nan)


def rank_rows(by: str, numbers: Samples, *, reverse: bool = False) -> NDArray[np.intp]:
    """Return the order of rows by their aggregates: the most important first, NaN always last.

    :param by: one of ``AGGREGATES``; other criteria are sorted like ``worst``.
    """
    keys = -numbers if (by in _LARGEST_FIRST) != reverse else numbers
    # Stable, so that rows of equal weight stay in the order of their names.
    return np.argsort(keys, kind="stable")
