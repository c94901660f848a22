"""Distances of runs from the others of a trace.

Robust sigmas are 1.4826 times the median distance from the median, which is the standard deviation
if the noise is normal and which outliers cannot move.

Source: Hampel, The influence curve and its role in robust estimation, 1974.
"""

from __future__ import annotations

import numpy as np

from perftrend.model import Samples

FAR = 4.5
"""Sigmas from the median from which on a run counts as far off: one of 150,000 normal ones does."""

EDGE = 3.0
"""Sigmas up to which a run is within the noise."""

_MAD_TO_SIGMA = 1.4826


def sigmas_off(values: Samples) -> Samples:
    """Return the distance of each run from the median of all, in robust sigmas, shape (n,).

    :param values: run averages, finite, shape (n,), any unit. If more than half of them are
        equal, the others are infinitely far.
    """
    offsets = values - np.median(values)
    sigma = _MAD_TO_SIGMA * float(np.median(np.abs(offsets)))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(offsets == 0, 0.0, offsets / sigma)


def newest_off(sigmas: Samples) -> int:
    """Return the number of newest runs that are off, without a run between that is not.

    :param sigmas: the result of :func:`sigmas_off`.
    """
    off = np.abs(sigmas) > EDGE
    return int(np.argmin(off[::-1])) if not off.all() else off.size
