"""Shades of cells, by a range that single outliers do not stretch.

Gains from the 95 % quantile of all sizes on have the full shade, so that one broken test does not make
all others look alike. Gains below half a percent never have the full shade, however quiet the table is.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from perftrend.model import Samples

LEVELS = 4
"""Shades on either side of no shade."""
_QUANTILE = 0.95
_LEAST = math.log(1.005)


def robust_range(gains: Samples) -> float:
    """Return the gain from which on cells have the full shade: a logarithm of a ratio, above zero."""
    sizes = np.abs(gains[np.isfinite(gains)])
    if not sizes.size:
        return _LEAST
    # With fewer than twenty it is the largest: among so few, none is certainly an outlier.
    return max(float(np.quantile(sizes, _QUANTILE, method="inverted_cdf")), _LEAST)


def levels(gains: Samples, full: float) -> NDArray[np.int64]:
    """Return the shade of each cell: from -4, worse, over 0, no shade, to 4, better; 0 if there is no gain.

    :param full: the result of :func:`robust_range`.
    """
    share = np.clip(np.nan_to_num(gains) / full, -1.0, 1.0)
    return np.rint(share * LEVELS).astype(np.int64)
