"""k-means: groups of rows around their averages.

Lloyd's algorithm: each row is assigned to the nearest centroid by Euclidean distance, and each centroid moves
to the average of its rows, until the total error, the sum of the distances, changes by less than 1.0, or
100 times. A centroid without rows is dropped and does not return.

It starts from some of the rows. ``random`` is the method of Skia Perf: k random rows, possibly with
duplicates. ``spread`` is k-means++: each further row is drawn with a probability proportional to its squared
distance from the nearest chosen row. Of a few draws, the one that leaves the least sum of squares is chosen.

The squared distance of a row x and a centroid c is |x|² - 2 (x·c - |c|²/2): the nearest centroid is
the one with the largest score x·c - |c|²/2. A column of ones appended to the rows makes the scores of all
rows one product. It is computed in blocks that are small enough for the linear algebra library to run each
in one thread. The result is then the same on any number of cores, and a busy machine, on which the threads of
the library wait for each other, does not slow it down tenfold.

The iterations run in single precision with sums in double precision. The last assignment is made in double
precision: each row belongs to its nearest centroid, up to rounding in that precision. With the same order of
rows and the same seed, the result is the same on any number of cores.

Source: "Skia Perf: Design", section Clustering; Lloyd, Least squares quantization in PCM, 1982; Arthur and
Vassilvitskii, k-means++: the advantages of careful seeding, 2007.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from math import log
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perftrend import errors
from perftrend.model import Samples

_SAME = 1e-5
"""Rows whose squared distance is a smaller fraction of their own squares are regarded as equal: in single
precision the difference of squares is not more exact."""

_BLOCK_PRODUCTS = 2**18
"""Multiplications in a block's product; libraries distribute larger ones over threads."""
_SHORTEST_BLOCK = 8
_PANEL = 2048
"""Rows whose scores are processed together, about as many as fit into a core's cache."""

MAXIMUM_ITERATIONS = 100
LEAST_MOVE = 1.0
"""The iterations end when the total error changes by less."""

LARGEST_AUTOMATIC_K = 200

Progress: TypeAlias = Callable[[int, float], object]
"""Called after each iteration with its number, from 1, and the total error. An exception that it raises ends
the clustering and propagates."""


class Seeding(StrEnum):
    """The method that chooses the first centroids."""

    RANDOM = "random"
    """As in Skia Perf: random rows."""
    SPREAD = "spread"
    """k-means++: rows far from each other."""


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


class ComparedRows:
    """Rows that are compared with one set of centroids after another.

    :param rows: shape (n, w), finite.
    :param dtype: the precision of the products.
    """

    def __init__(self, rows: Samples, dtype: type[np.float32 | np.float64]) -> None:
        self.count, self.width = rows.shape
        # Rows of zeros at the end complete the last block.
        self._augmented = np.zeros((self.count + _PANEL, self.width + 1), dtype)
        self._augmented[: self.count, :-1] = rows
        self._augmented[: self.count, -1] = 1
        self.squares = np.einsum("ij,ij->i", self.values, self.values, dtype=np.float64)

    @property
    def values(self) -> NDArray[np.floating]:
        """The rows in the precision of the products, shape (n, w)."""
        return self._augmented[: self.count, :-1]

    def nearest(self, centroids: Samples) -> tuple[NDArray[np.intp], Samples]:
        """Return each row's nearest centroid, the first of equally near ones, and its squared distance.

        :param centroids: shape (k, w), k at least 1.
        :returns: arrays of shape (n,). A distance is as exact as its difference of squares.
        """
        labels = np.empty(self.count, np.intp)
        best = np.empty(self.count)
        for start, scores in self._scores(centroids):
            stop = start + len(scores)
            labels[start:stop] = chosen = scores.argmax(axis=1)
            best[start:stop] = scores[np.arange(len(scores)), chosen]
        return labels, np.maximum(self.squares - 2 * best, 0.0)

    def squared_distances(self, centroids: Samples) -> Samples:
        """Return the squared distance of each row to each centroid, shape (n, k)."""
        found = np.empty((self.count, len(centroids)))
        for start, scores in self._scores(centroids):
            found[start : start + len(scores)] = scores
        found *= -2
        found += self.squares[:, np.newaxis]
        return np.maximum(found, 0.0, out=found)

    def _scores(self, centroids: Samples) -> Iterator[tuple[int, NDArray[np.floating]]]:
        """Yield the scores panel by panel: the first row, and an array that the next panel overwrites."""
        count = len(centroids)
        augmented = np.empty((self.width + 1, count), self._augmented.dtype)
        augmented[:-1] = centroids.T
        augmented[-1] = -(centroids**2).sum(axis=1) / 2
        block = min(max(_BLOCK_PRODUCTS // augmented.size, _SHORTEST_BLOCK), _PANEL)
        panel = _PANEL // block * block
        room = np.empty((panel // block, block, count), self._augmented.dtype)
        for start in range(0, self.count, panel):
            blocks = -(-min(panel, self.count - start) // block)
            rows = self._augmented[start : start + blocks * block].reshape(blocks, block, -1)
            scores = np.matmul(rows, augmented, out=room[:blocks])
            yield start, scores.reshape(-1, count)[: self.count - start]


def _distances(rows: ComparedRows, positions: NDArray[np.intp]) -> Samples:
    """Return squared distances to some of the rows, shape (n, m); 0 to those that are equal."""
    found = rows.squared_distances(rows.values[positions].astype(np.float64))
    found[found <= _SAME * (rows.squares[:, np.newaxis] + rows.squares[positions])] = 0.0
    return found


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
