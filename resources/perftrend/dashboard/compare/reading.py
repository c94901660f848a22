"""Cache of whole tiles: values of two places that are close together, the usual case, are read once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from perftrend.model import Samples
from perftrend.store import Store
from perftrend.store.tiles import POINTS, Axis


class WholeTiles:
    """Reader that caches whole tiles; the store reads all of a tile in any case.

    ::

        values_at = WholeTiles(store).values
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[tuple[int, range, bytes], Samples] = {}

    def values(self, axis: Axis, ids: NDArray[np.int64], columns: range) -> Samples:
        """Return the values of traces in columns, shape (n, columns); NaN if missing.

        :raises StoreError: if the store cannot be read.
        """
        parts = []
        for start in range(columns.start // POINTS * POINTS, columns.stop, POINTS):
            tile = range(start, min(start + POINTS, len(axis.columns)))
            whole = self._tile(axis, ids, tile)
            parts.append(whole[:, max(columns.start - start, 0) : columns.stop - start])
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty((len(ids), 0)), *parts], axis=1)

    def _tile(self, axis: Axis, ids: NDArray[np.int64], tile: range) -> Samples:
        key = (axis.axis_id, tile, ids.tobytes())
        if key not in self._kept:
            self._kept[key] = self._store.tiles.values(axis, ids, tile)
        return self._kept[key]
