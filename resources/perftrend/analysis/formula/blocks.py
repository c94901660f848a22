"""Applies a function of each row to a large matrix, some rows at a time.

No row depends on another one there. So a block at a time gives the same, and what is needed on the way
stays as small as the processor's cache, whatever the size of the matrix.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from perftrend.model import Samples

_CELLS = 2**16
"""Of one block: half a megabyte."""


def by_rows(compute: Callable[..., Samples], rows: Samples, *numbers: float) -> Samples:
    """Make a row of each row.

    :param compute: from some of the rows, and the numbers, to as many rows.
    :param rows: shape (rows, points).
    :returns: the same shape.
    """
    result = np.empty_like(rows)
    size = max(_CELLS // max(rows.shape[1], 1), 1)
    for start in range(0, len(rows), size):
        block = slice(start, start + size)
        result[block] = compute(rows[block], *numbers)
    return result
