"""Values of other testbeds, aligned with the columns of the testbed whose commits are the points.

A column has the values that the other testbed measured of the same commit. If a commit was measured several
times, the first measurement there is aligned with the first one here, and so on. Commits that the other
testbed did not measure are gaps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from perftrend.model import Samples
from perftrend.store import Store
from perftrend.store.tiles import Axis, Column, common


@dataclass(frozen=True, slots=True, eq=False)
class Elsewhere:
    """Columns of another testbed, aligned with those of the same commits here."""

    axis: Axis
    """Axis of the other testbed."""
    places: NDArray[np.intp]
    """For each column here, the index of the column with the same commit there, or -1."""

    @classmethod
    def beside(cls, here: Axis, there: Axis) -> Self:
        """Align the columns of two testbeds."""
        ours, theirs = common([here.columns, there.columns])
        places = np.full(len(here.columns), -1, dtype=np.intp)
        places[ours[ours >= 0]] = theirs[ours >= 0]
        return cls(there, places)

    def column(self, number: int) -> Column | None:
        """Return the other testbed's column for a column here; None: it did not measure that commit."""
        place = int(self.places[number])
        return None if place < 0 else self.axis.columns[place]

    def values(self, store: Store, ids: NDArray[np.int64], columns: range) -> Samples:
        """Return the values of traces of the other testbed in consecutive columns here.

        :returns: shape (n, columns), NaN for gaps.
        """
        return store.tiles.values_at(self.axis, ids, self.places[columns.start : columns.stop])
