"""Normalised traces: without holes, with mean 0 and standard deviation 1, so that only the shape remains.

A hole is a value that is not finite. It is filled with the next value to its right, or with the last one at
the end of a trace. A trace that hardly changes would become amplified noise: if its standard deviation is
not above the smallest one, only the mean is subtracted.

A trace without values is excluded. In a window around a commit, so is a trace without a value at that commit,
or with less than half of the values on one side of it.

Source: "Skia Perf: Design", section Clustering.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perftrend import errors
from perftrend.model import Samples

SMALLEST_DEVIATION = 0.001
"""Standard deviation that a trace must exceed to be scaled, in the unit of the trace."""

_SHORTEST_WITH_MIDDLE = 3
"""Shorter windows have no middle with two sides."""


class Unusable(StrEnum):
    """The reason why a trace is excluded."""

    EMPTY = "it has no value"
    NO_MIDDLE = "it has no value in the middle"
    SPARSE_SIDE = "more than half of the values on a side of the middle are missing"


@dataclass(frozen=True, slots=True, eq=False)
class NormalisedTraces:
    """The traces that can be clustered, and why the others cannot."""

    rows: Samples
    """Shape (m, w), finite."""
    positions: NDArray[np.intp]
    """Positions of the traces in the rows, shape (m,), ascending."""
    left_out: Mapping[int, Unusable]
    """Reasons by the position of the trace."""


def normalise(
    traces: ArrayLike, *, smallest_deviation: float = SMALLEST_DEVIATION, around_middle: bool = True
) -> NormalisedTraces:
    """Fill the holes of traces and scale them to mean 0 and standard deviation 1.

    :param traces: one trace per row, shape (n, w), any unit; values that are not finite are holes.
    :param smallest_deviation: population standard deviation that a trace must exceed to be scaled.
    :param around_middle: whether to exclude a trace that lacks its middle or more than half of a side;
        meant for a window around one commit. Otherwise only traces without any value are excluded.
    :raises SettingsError: if the traces are not a table, or the smallest deviation is negative or not finite.
    """
    values = np.asarray(traces, dtype=np.float64)
    if values.ndim != 2:  # noqa: PLR2004 - traces and commits
        raise errors.SettingsError(f"clusters: give one row for each trace, not {values.ndim} dimensions")
    if not 0 <= smallest_deviation < np.inf:
        raise errors.SettingsError(
            f"clusters: smallest standard deviation is {smallest_deviation}; give 0 or more"
        )
    present = np.isfinite(values)
    left_out = _find_unusable(present, around_middle)
    positions = np.setdiff1d(np.arange(len(values)), list(left_out), assume_unique=True).astype(np.intp)
    filled = _fill_holes(values[positions], present[positions])
    return NormalisedTraces(_scale(filled, smallest_deviation), positions, left_out)


def _find_unusable(present: NDArray[np.bool_], around_middle: bool) -> dict[int, Unusable]:
    width = present.shape[1]
    found: dict[int, Unusable] = {}
    if around_middle and width >= _SHORTEST_WITH_MIDDLE:
        half = width // 2
        fewest = np.minimum(present[:, :half].sum(axis=1), present[:, width - half :].sum(axis=1))
        found |= dict.fromkeys(np.flatnonzero(2 * fewest < half).tolist(), Unusable.SPARSE_SIDE)
        found |= dict.fromkeys(np.flatnonzero(~present[:, half]).tolist(), Unusable.NO_MIDDLE)
    found |= dict.fromkeys(np.flatnonzero(~present.any(axis=1)).tolist(), Unusable.EMPTY)
    return dict(sorted(found.items()))


def _fill_holes(values: Samples, present: NDArray[np.bool_]) -> Samples:
    """Fill each hole with the next value to its right, at the end with the last one; no row may be empty."""
    width = values.shape[1]
    if present.all():
        return values
    columns = np.where(present, np.arange(width), width)
    following = np.minimum.accumulate(columns[:, ::-1], axis=1)[:, ::-1]
    last = width - 1 - np.argmax(present[:, ::-1], axis=1)
    filled: Samples = np.take_along_axis(values, np.minimum(following, last[:, np.newaxis]), axis=1)
    return filled


def _scale(rows: Samples, smallest_deviation: float) -> Samples:
    """Subtract each row's mean, and divide by its deviation if that is large enough."""
    if not rows.size:
        return rows
    # Powers of two are exact and keep the squares of the largest numbers finite.
    exponents = np.frexp(np.abs(rows).max(axis=1, keepdims=True))[1]
    scaled = np.ldexp(rows, -exponents)
    # Relative to its first value, a row of equal values has a deviation of exactly 0.
    scaled -= scaled[:, :1]
    scaled -= scaled.mean(axis=1, keepdims=True)
    deviations = scaled.std(axis=1, keepdims=True)
    with np.errstate(over="ignore", under="ignore"):
        wide = np.ldexp(deviations, exponents) > smallest_deviation
        normal: Samples = np.where(wide, scaled / np.where(wide, deviations, 1), np.ldexp(scaled, exponents))
    return normal
