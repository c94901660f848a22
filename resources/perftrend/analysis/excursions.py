"""Excursions: runs that leave the noise for a moment and are back.

Robust sigmas are 1.4826 times the median distance from the median, which is the standard deviation
where the noise is normal and which outliers cannot move.

Source: Hampel, The influence curve and its role in robust estimation, 1974; "Trend Analysis", section
Reverted regression.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from perftrend.model import Samples

FAR = 4.5
"""Sigmas from the median at which a run lies far off: one of 150,000 normal ones does."""

EDGE = 3.0
"""Sigmas up to which a run is within the noise."""

LONGEST = 6
"""No more runs in a row are ever taken for an excursion."""

_MAD_TO_SIGMA = 1.4826


def sigmas_off(values: Samples) -> Samples:
    """Return how far each run lies from the median of all, in robust sigmas, shape (n,).

    :param values: run averages, finite, shape (n,), any unit. Where more than half of them are
        equal, the others are infinitely far.
    """
    offsets = values - np.median(values)
    sigma = _MAD_TO_SIGMA * float(np.median(np.abs(offsets)))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(offsets == 0, 0.0, offsets / sigma)


def longest_excursion(sigmas: Samples, rate: float, *, known: bool = False) -> int:
    """Return how many runs in a row may lie off by chance, so often as the trace's runs lie far off.

    A run lies far off on one side with the probability p that it had so far. k runs in a row do so
    with p to the k; the answer is the largest k for which that is more than half of the rate.

    :param sigmas: what :func:`sigmas_off` returns.
    :param rate: false alarms a run.
    :param known: whether far-off runs are known from before.
    :returns: 0 where there are none at all, else from 1 to 6.
    """
    far = np.where(np.abs(sigmas) >= FAR, np.sign(sigmas), 0.0)
    # The newest runs are judged, and do not judge themselves.
    off = np.abs(sigmas) > EDGE
    open_from = sigmas.size - int(np.argmin(off[::-1])) if not off.all() else 0
    count = max(int((far[:open_from] > 0).sum()), int((far[:open_from] < 0).sum()))
    if not count:
        return int(known)
    share = min(count / max(open_from, 1), 0.5)
    return int(np.clip(math.floor(math.log(rate / 2) / math.log(share)), 1, LONGEST))


def excursions(sigmas: Samples, longest: int) -> NDArray[np.bool_]:
    """Return which runs belong to an excursion that has ended, shape (n,).

    :param sigmas: what :func:`sigmas_off` returns, of runs without a change of the trend.
    :param longest: how many runs an excursion may have, at least one of them far. Two are always
        allowed: beside a far run another one may leave the noise.
    """
    left_out = np.zeros(sigmas.size, dtype=bool)
    for start, stop in _stretches(sigmas):
        if stop - start <= max(longest, 2) and np.abs(sigmas[start:stop]).max() >= FAR:
            left_out[start:stop] = stop < sigmas.size
    return left_out


def unfinished(sigmas: Samples, longest: int) -> NDArray[np.bool_]:
    """Return which of the newest runs may be an excursion that has not ended yet, shape (n,).

    :param sigmas: what :func:`sigmas_off` returns.
    :param longest: how many runs an excursion may have. More of them on one side are a change.
    """
    newest = np.zeros(sigmas.size, dtype=bool)
    for start, stop in _stretches(sigmas)[-1:]:
        together = np.abs(np.sign(sigmas[start:stop]).sum())
        far = np.abs(sigmas[start:stop]).max() >= FAR
        newest[start:stop] = stop == sigmas.size and far and together <= longest
    return newest


def clipped(values: Samples, sigmas: Samples) -> Samples:
    """Move the runs that lie off to the edge of the noise, shape (n,).

    :param values: run averages, finite, shape (n,), any unit.
    :param sigmas: what :func:`sigmas_off` returns of them; what is infinite stays where it is.
    """
    edge = np.isfinite(sigmas) & (np.abs(sigmas) > EDGE)
    offsets = values - np.median(values)
    moved = values.copy()
    moved[edge] -= offsets[edge] * (1 - EDGE / np.abs(sigmas[edge]))
    return moved


def _stretches(sigmas: Samples) -> list[tuple[int, int]]:
    """Return start and stop of each row of runs that lie off."""
    off = np.abs(sigmas) > EDGE
    edges = np.flatnonzero(np.diff(off, prepend=False, append=False)).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def spiked(values: Samples) -> bool:
    """Say whether a single run ever stood out from both of its neighbours.

    The trend may have changed meanwhile: only differences of neighbours are looked at, and these in
    robust sigmas of the differences.

    :param values: run averages in the order of time, finite, shape (n,), any unit.
    """
    steps = np.diff(values)
    if not steps.size:
        return False
    far = np.abs(steps) > FAR * _MAD_TO_SIGMA * np.median(np.abs(steps))
    return bool((far[:-1] & far[1:] & (np.sign(steps[:-1]) != np.sign(steps[1:]))).any())
