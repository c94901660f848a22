"""Shades of cells, by a range that single far-off cells do not stretch.

The full shade belongs to gains from the 95 % quantile of all sizes on, so that one broken test does not make
all others look alike. Below half a per cent nothing is shaded fully, however quiet the table is.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from perftrend.model import Samples

LEVELS = 4
"""Shades on either side of none."""
_QUANTILE = 0.95
_LEAST = math.log(1.005)


def robust_range(gains: Samples) -> float:
    """Return the gain from which on cells have the full shade: a logarithm of a ratio, above zero."""
    sizes = np.abs(gains[np.isfinite(gains)])
    if not sizes.size:
        return _LEAST
    # Of fewer than twenty it is the largest: among so few there is none that is far off for sure.
    return max(float(np.quantile(sizes, _QUANTILE, method="inverted_cdf")), _LEAST)


def levels(gains: Samples, full: float) -> NDArray[np.int64]:
    """Return the shade of each cell: from -4, worse, over 0, none, to 4, better; 0 where there is no gain.

    :param full: what :func:`robust_range` gives.
    """
    share = np.clip(np.nan_to_num(gains) / full, -1.0, 1.0)
    return np.rint(share * LEVELS).astype(np.int64)
