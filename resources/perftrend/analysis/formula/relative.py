"""Averages of rows of unlike levels, which do not move when rows come or go.

Each row is divided by its level, and the ratios are averaged point by point. The level of a row is its own
average, relative to that of the result over the same points: a row that exists only after everything became
slower is not taken for one that never became slower. If all rows have the same points, the level is simply
the average of the row.

Short gaps are filled, so that a missing value does not move the result either. Between long ones the set of
rows is constant; a :class:`SetChange` is where it changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.formula import over_rows
from perftrend.model import Samples

MOST_MISSING = 8
"""The longest gap that is filled, in points: tests of a weekly job among nightly ones remain in the set."""
_ITERATIONS = 1000
_PRECISION = 1e-12


@dataclass(frozen=True, slots=True)
class SetChange:
    """A point at which the set of rows changes."""

    point: int
    added: tuple[int, ...]
    """The rows that begin at this point, by their numbers."""
    removed: tuple[int, ...]
    """The rows that ended before it."""


@dataclass(frozen=True, slots=True, eq=False)
class RowSet:
    """Rows with filled gaps, and which of them there are at each point."""

    points: NDArray[np.intp]
    """The points that any row has a value at."""
    total: int
    """Number of all points."""
    filled: Samples
    """Shape (rows, those points), 0 where a row is not in the set; scaled to at most 1."""
    present: NDArray[np.bool_]
    """Whether a row is in the set, of the same shape."""

    @classmethod
    def of(cls, rows: Samples) -> Self:
        """Fill the gaps of rows; a row with values on both sides of zero, or of zeros only, has no level."""
        points = np.flatnonzero(~np.isnan(rows).all(axis=0))
        filled = _fill_gaps(rows if len(points) == rows.shape[1] else rows[:, points])
        highest = np.fmax.reduce(filled, axis=1, keepdims=True, initial=np.nan)
        lowest = np.fmin.reduce(filled, axis=1, keepdims=True, initial=np.nan)
        largest = np.fmax(highest, -lowest)
        is_usable = (largest > 0) & ~((highest > 0) & (lowest < 0))
        # In place, since new arrays of tens of thousands of rows take more time than the arithmetic.
        np.divide(filled, np.where(is_usable, largest, np.nan), out=filled)
        present = ~np.isnan(filled)
        np.abs(filled, out=filled)
        np.copyto(filled, 0.0, where=~present)
        return cls(points, rows.shape[1], filled, present)

    def average(self) -> Samples:
        """Return the average of the ratios of all rows to their levels, 1 on average; shape (points,)."""
        return over_rows.average(self.ratios())

    def least(self) -> Samples:
        """Return the smallest ratio of a row to its level."""
        return over_rows.least(self.ratios())

    def most(self) -> Samples:
        """Return the largest ratio of a row to its level."""
        return over_rows.most(self.ratios())

    @property
    def _starts(self) -> NDArray[np.intp]:
        """The places at which a stretch with a constant set begins."""
        changed = (self.present[:, 1:] != self.present[:, :-1]).any(axis=0)
        return np.concatenate([[0], np.flatnonzero(changed) + 1]).astype(np.intp)

    def changes(self) -> Iterator[SetChange]:
        """Yield where the set of rows changes, in the order of points."""
        for start in self._starts[1:].tolist():
            now, before = self.present[:, start], self.present[:, start - 1]
            yield SetChange(
                int(self.points[start]),
                added=tuple(np.flatnonzero(now & ~before).tolist()),
                removed=tuple(np.flatnonzero(before & ~now).tolist()),
            )

    def ratios(self) -> Samples:
        """Return each row divided by its level, NaN where it is not in the set; shape (rows, all points)."""
        if not (len(self.points) and len(self.filled)):
            return np.full((len(self.filled), self.total), np.nan)
        found = np.full_like(self.filled, np.nan)
        np.divide(self.filled, self._levels()[:, np.newaxis], out=found, where=self.present)
        if len(self.points) == self.total:
            return found
        result = np.full((len(self.filled), self.total), np.nan)
        result[:, self.points] = found
        return result

    def _levels(self) -> Samples:
        starts = self._starts
        sums = np.add.reduceat(self.filled, starts, axis=1)
        within = self.present[:, starts].astype(np.float64)
        whole = sums.sum(axis=1)
        lengths = np.diff([*starts.tolist(), len(self.points)]).astype(np.float64)
        expected = _stretch_sums(sums, within, whole, lengths)
        with np.errstate(divide="ignore", invalid="ignore"):
            levels: Samples = whole / (within @ expected)
            return levels


def _stretch_sums(sums: Samples, within: Samples, whole: Samples, lengths: Samples) -> Samples:
    """Return the sum of the result over each stretch with a constant set, shape (stretches,).

    The sum m over a stretch is the average of the sums of its rows there, each divided by the row's level;
    the level is the sum of the row over the sum of m where the row is. So m is the fixed point of a linear
    map with the largest eigenvalue 1, and is found by its powers. Stretches without a common row are
    unrelated; each of them then has the average 1 that it begins with.

    :param sums: of each row over each stretch, shape (rows, stretches).
    :param within: 1 where a row is in the set, else 0.
    :param whole: the sum of each row.
    """
    if len(lengths) == 1:
        return lengths
    shares = np.divide(sums, whole[:, np.newaxis], out=np.zeros_like(sums), where=whole[:, np.newaxis] > 0)
    step = (shares.T @ within) / np.fmax(within.sum(axis=0), 1.0)[:, np.newaxis]
    found = lengths
    for _ in range(_ITERATIONS):
        before, found = found, step @ found
        if np.abs(found - before).max() <= _PRECISION * lengths.sum():
            break
    scaled: Samples = found * (lengths.sum() / found.sum())
    return scaled


def _fill_gaps(rows: Samples) -> Samples:
    """Fill gaps of at most ``MOST_MISSING`` points by a straight line, at the ends by the nearest value."""
    filled = rows.copy()
    chosen = np.flatnonzero(np.isnan(rows).any(axis=1))
    if not len(chosen):
        return filled
    part = rows[chosen]
    present, places = ~np.isnan(part), np.arange(part.shape[1], dtype=np.int32)
    last = part.shape[1]
    before = np.maximum.accumulate(np.where(present, places, np.int32(-1)), axis=1)
    after = np.minimum.accumulate(np.where(present, places, np.int32(last))[:, ::-1], axis=1)[:, ::-1]
    is_short = ~present & (after - before - 1 <= MOST_MISSING) & present.any(axis=1, keepdims=True)
    row, place = np.nonzero(is_short)
    left, right = before[row, place], after[row, place]
    at_left, at_right = part[row, np.maximum(left, 0)], part[row, np.minimum(right, last - 1)]
    share = (place - left) / (right - left)
    inner = at_left * (1 - share) + at_right * share
    part[row, place] = np.where(left < 0, at_right, np.where(right == last, at_left, inner))
    filled[chosen] = part
    return filled
