"""Values of other testbeds, put beside those of the testbed whose commits are the points.

A column has what the other testbed measured of the same commit; of a commit that was measured several times,
the first time there stands with the first time here, and so on. What it did not measure is a hole.
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
    """The columns of another testbed, at the places of the same commits here."""

    axis: Axis
    """The other testbed's."""
    places: NDArray[np.intp]
    """For each column here the one of the same commit there, -1 where there is none."""

    @classmethod
    def beside(cls, here: Axis, there: Axis) -> Self:
        """Put the columns of two testbeds beside each other."""
        ours, theirs = common([here.columns, there.columns])
        places = np.full(len(here.columns), -1, dtype=np.intp)
        places[ours[ours >= 0]] = theirs[ours >= 0]
        return cls(there, places)

    def column(self, number: int) -> Column | None:
        """Return the other testbed's column at a place here; None: it did not measure that commit."""
        place = int(self.places[number])
        return None if place < 0 else self.axis.columns[place]

    def values(self, store: Store, ids: NDArray[np.int64], columns: range) -> Samples:
        """Return the values of traces of the other testbed in consecutive columns here.

        :returns: shape (n, columns), NaN for holes.
        """
        return store.tiles.values_at(self.axis, ids, self.places[columns.start : columns.stop])
