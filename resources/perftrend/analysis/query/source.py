"""The source of rows for formulas: traces of a table, with values that the caller reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.formula import Query, Rows, StoredId, format_key
from perftrend.analysis.query.table import TraceTable
from perftrend.model import Samples, TraceKey


@dataclass(frozen=True, slots=True, eq=False)
class TraceSource:
    """A :class:`perftrend.analysis.formula.RowSource` of the traces of a table."""

    table: TraceTable
    points: int
    """Number of points of every row."""
    read: Callable[[NDArray[np.intp]], Samples]
    """Returns the values at n places in the table, shape (n, points), NaN for holes."""
    shortcuts: Callable[[str], Sequence[StoredId] | None] = lambda _: None
    """Returns the content of a shortcut by its id; None if it does not exist."""

    def select(self, query: Query, *, most: int) -> Rows:
        """Return the traces that match a query.

        If more than ``most`` match, nothing is read: their rows have only holes, and are to be rejected.

        :raises FormulaError: if a regular expression is invalid.
        """
        places = self.table.rows(query)[: most + 1]
        if len(places) > most:
            return Rows(partial(self._names, places), np.broadcast_to(np.nan, (len(places), self.points)))
        return self._rows(places)

    def traces(self, keys: Sequence[TraceKey]) -> Rows:
        """Return those of the traces that are in the table; one that is given by two names once."""
        known = dict.fromkeys(self.table.place_of.get(key) for key in keys)
        return self._rows(np.array([place for place in known if place is not None], dtype=np.intp))

    def shortcut(self, identity: str) -> Sequence[StoredId] | None:
        """Return the content of a shortcut."""
        return self.shortcuts(identity)

    def _rows(self, places: NDArray[np.intp]) -> Rows:
        return Rows(partial(self._names, places), self.read(places))

    def _names(self, places: NDArray[np.intp]) -> list[str]:
        return [format_key(self.table.keys[place]) for place in places.tolist()]
