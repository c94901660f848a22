"""The rows that k-means starts from.

``random`` is the method of Skia Perf: k random rows, possibly with duplicates. ``spread`` is k-means++: each
further row is drawn with a probability proportional to its squared distance from the nearest chosen row. Of a
few draws, the one that leaves the least sum of squares is chosen.

Source: "Skia Perf: Design"; Arthur and Vassilvitskii, k-means++: the advantages of careful seeding, 2007.
"""

from __future__ import annotations

from enum import StrEnum
from math import log

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.cluster.nearest_centroid import ComparedRows
from perftrend.model import Samples

_SAME = 1e-5
"""Rows whose squared distance is a smaller fraction of their own squares are regarded as equal: in single
precision the difference of squares is not more exact."""


class Seeding(StrEnum):
    """The method that chooses the first centroids."""

    RANDOM = "random"
    """As in Skia Perf: random rows."""
    SPREAD = "spread"
    """k-means++: rows far from each other."""


def seeds(rows: ComparedRows, k: int, seeding: Seeding, generator: np.random.Generator) -> NDArray[np.intp]:
    """Choose the rows to start from.

    :param rows: at least one.
    :param k: how many to choose, at least 1.
    :returns: positions of rows, at most k: ``spread`` ends when all rows are equal to chosen ones.
    """
    if seeding is Seeding.RANDOM:
        return generator.integers(rows.count, size=k)
    chosen = [int(generator.integers(rows.count))]
    least = _distances(rows, np.array(chosen))[:, 0]
    # As many draws as in scikit-learn, for the same reason: more cost more than they gain.
    draws = 2 + int(log(k))
    while len(chosen) < k and (total := least.sum()) > 0:
        candidates = np.searchsorted(np.cumsum(least), generator.random(draws) * total, side="right")
        candidates = np.minimum(candidates, np.flatnonzero(least)[-1])
        remaining = np.minimum(least[:, np.newaxis], _distances(rows, candidates))
        best = int(remaining.sum(axis=0).argmin())
        chosen.append(int(candidates[best]))
        least = remaining[:, best].copy()
    return np.array(chosen)


def _distances(rows: ComparedRows, positions: NDArray[np.intp]) -> Samples:
    """Return squared distances to some of the rows, shape (n, m); 0 to those that are equal."""
    found = rows.squared_distances(rows.values[positions].astype(np.float64))
    found[found <= _SAME * (rows.squares[:, np.newaxis] + rows.squares[positions])] = 0.0
    return found
