"""k-means: groups of rows around their averages.

Lloyd's algorithm: each row is assigned to the nearest centroid by Euclidean distance, and each centroid moves
to the average of its rows, until the total error, the sum of the distances, changes by less than 1.0, or
100 times. A centroid without rows is dropped and does not return.

The iterations run in single precision with sums in double precision. The last assignment is made in double
precision: each row belongs to its nearest centroid, up to rounding in that precision. With the same order of
rows and the same seed, the result is the same on any number of cores.

Source: "Skia Perf: Design", section Clustering; Lloyd, Least squares quantization in PCM, 1982.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perftrend import errors
from perftrend.analysis.cluster.nearest_centroid import ComparedRows
from perftrend.analysis.cluster.seeds import Seeding, seeds
from perftrend.model import Samples

MAXIMUM_ITERATIONS = 100
LEAST_MOVE = 1.0
"""The iterations end when the total error changes by less."""

LARGEST_AUTOMATIC_K = 200

Progress: TypeAlias = Callable[[int, float], object]
"""Called after each iteration with its number, from 1, and the total error. An exception that it raises ends
the clustering and propagates."""


@dataclass(frozen=True, slots=True, eq=False)
class KMeans:
    """Centroids, and the assignment of the rows to them."""

    centroids: Samples
    """Shape (k, w); each has at least one row."""
    labels: NDArray[np.intp]
    """The nearest centroid of each row, shape (n,)."""
    distances: Samples
    """The Euclidean distance to it, shape (n,)."""
    iterations: int
    converged: bool
    """Whether the total error converged before the iterations ended."""

    @property
    def total_error(self) -> float:
        """The sum of the distances."""
        return float(self.distances.sum())


def automatic_k(traces: int) -> int:
    """Return the number of clusters for a number of traces: ⌊40/30000 · traces + 10⌋, at most 200."""
    return min(40 * traces // 30000 + 10, LARGEST_AUTOMATIC_K)


def k_means(
    rows: ArrayLike,
    k: int,
    *,
    seed: int = 1,
    seeding: Seeding = Seeding.SPREAD,
    maximum_iterations: int = MAXIMUM_ITERATIONS,
    least_move: float = LEAST_MOVE,
    progress: Progress | None = None,
) -> KMeans:
    """Divide rows into at most k clusters.

    :param rows: shape (n, w), n and w may be 0; finite, and their squares finite in single precision.
    :param k: initial number of clusters, at least 1; at most one per row is used.
    :param seed: of the choice of the first centroids, not negative.
    :param progress: called after each iteration, see :data:`Progress`.
    :raises SettingsError: if an argument is invalid.
    """
    values = np.asarray(rows, dtype=np.float64)
    _check(values, k, seed)
    if not len(values):
        return KMeans(np.empty((0, values.shape[1])), np.empty(0, np.intp), np.empty(0), 0, converged=True)
    single = ComparedRows(values, np.float32)
    first = seeds(single, min(k, len(values)), seeding, np.random.default_rng(seed))
    centroids, iterations, converged = _move_centroids(
        values,
        single,
        values[first],
        maximum_iterations=maximum_iterations,
        least_move=least_move,
        progress=progress,
    )
    labels, _ = ComparedRows(values, np.float64).nearest(centroids)
    used, labels = np.unique(labels, return_inverse=True)
    centroids = centroids[used]
    distances = np.linalg.norm(values - centroids[labels], axis=1)
    return KMeans(centroids, labels, distances, iterations, converged)


def _check(values: Samples, k: int, seed: int) -> None:
    if values.ndim != 2:  # noqa: PLR2004 - rows and columns
        raise errors.SettingsError(f"clusters: give one row for each trace, not {values.ndim} dimensions")
    if k < 1:
        raise errors.SettingsError(f"clusters: {k} clusters are requested; give at least 1")
    if seed < 0:
        raise errors.SettingsError(f"clusters: seed is {seed}; give 0 or more")
    largest = np.sqrt(np.finfo(np.float32).max / max(values.shape[1], 1)) / 4
    # Written so that NaN is rejected too.
    if not (np.abs(values) <= largest).all():
        raise errors.SettingsError("clusters: a trace has holes or too large values; normalise it first")


def _move_centroids(
    values: Samples,
    rows: ComparedRows,
    centroids: Samples,
    *,
    maximum_iterations: int,
    least_move: float,
    progress: Progress | None,
) -> tuple[Samples, int, bool]:
    """Move centroids until the total error converges; return them, the iterations, and whether it did."""
    members = _Members(values, len(centroids))
    labels, squares = rows.nearest(centroids)
    members.add(np.arange(len(values)), labels, sign=1)
    error = np.sqrt(squares).sum()
    for iteration in range(1, maximum_iterations + 1):
        alive = np.flatnonzero(members.counts)
        centroids = members.sums[alive] / members.counts[alive, np.newaxis]
        nearest, squares = rows.nearest(centroids)
        nearest = alive[nearest]
        # Few rows move after the first iterations.
        moved = np.flatnonzero(nearest != labels)
        members.add(moved, labels[moved], sign=-1)
        members.add(moved, nearest[moved], sign=1)
        labels, previous, error = nearest, error, np.sqrt(squares).sum()
        if progress is not None:
            progress(iteration, float(error))
        if abs(error - previous) < least_move:
            return centroids, iteration, True
    return centroids, maximum_iterations, False


class _Members:
    """The sum and the number of the rows of each cluster.

    :param rows: shape (n, w).
    :param k: number of clusters.
    """

    def __init__(self, rows: Samples, k: int) -> None:
        self._rows = rows
        self.sums = np.zeros((k, rows.shape[1]))
        self.counts = np.zeros(k, np.intp)

    def add(self, positions: NDArray[np.intp], labels: NDArray[np.intp], *, sign: int) -> None:
        """Add rows to clusters (sign 1), or remove them (sign -1)."""
        k, width = self.sums.shape
        cells = labels[:, np.newaxis] * width + np.arange(width)
        found = np.bincount(cells.ravel(), self._rows[positions].ravel(), minlength=k * width)
        self.sums += sign * found.reshape(k, width)
        self.counts += sign * np.bincount(labels, minlength=k)
