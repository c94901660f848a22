"""The nearest of several centroids for each of many rows, by products of small matrices.

The squared distance of a row x and a centroid c is |x|² - 2 (x·c - |c|²/2): the nearest centroid is
the one with the largest score x·c - |c|²/2. A column of ones appended to the rows makes the scores of all
rows one product. It is computed in blocks that are small enough for the linear algebra library to run each
in one thread. The result is then the same on any number of cores, and a busy machine, on which the threads of
the library wait for each other, does not slow it down tenfold.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from perftrend.model import Samples

_BLOCK_PRODUCTS = 2**18
"""Multiplications in a block's product; libraries distribute larger ones over threads."""
_SHORTEST_BLOCK = 8
_PANEL = 2048
"""Rows whose scores are processed together, about as many as fit into a core's cache."""


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
