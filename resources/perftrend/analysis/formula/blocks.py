"""Functions of each row, applied to a large matrix block by block.

No row depends on another one. The result is therefore the same as for the whole matrix, and temporary arrays
fit into the processor's cache, whatever the size of the matrix.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from perftrend.model import Samples

_CELLS = 2**16
"""Cells of one block: half a megabyte."""


def by_rows(compute: Callable[..., Samples], rows: Samples, *numbers: float) -> Samples:
    """Compute a row from each row.

    :param compute: receives some of the rows, and the numbers; returns as many rows.
    :param rows: shape (rows, points).
    :returns: the same shape.
    """
    result = np.empty_like(rows)
    size = max(_CELLS // max(rows.shape[1], 1), 1)
    for start in range(0, len(rows), size):
        block = slice(start, start + size)
        result[block] = compute(rows[block], *numbers)
    return result
