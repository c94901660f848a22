"""Where formulas get their rows: traces of a table, with values that somebody reads."""

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
    """A :class:`perftrend.analysis.formula.Source` of the traces of a table."""

    table: TraceTable
    points: int
    """Of every row."""
    read: Callable[[NDArray[np.intp]], Samples]
    """From n places in the table to the values there, shape (n, points), NaN for holes."""
    shortcuts: Callable[[str], Sequence[StoredId] | None] = lambda _: None
    """From an id to what the shortcut holds; None: there is no such shortcut."""

    def matching(self, query: Query, *, most: int) -> Rows:
        """Return the traces that a query fits.

        Of more than ``most`` nothing is read: they are as many holes, to be refused.

        :raises FormulaError: for a regular expression that is none.
        """
        places = self.table.rows(query)[: most + 1]
        if len(places) > most:
            return Rows(partial(self._names, places), np.broadcast_to(np.nan, (len(places), self.points)))
        return self._rows(places)

    def traces(self, keys: Sequence[TraceKey]) -> Rows:
        """Return these traces, as far as the table has them; one that is given by two names once."""
        known = dict.fromkeys(self.table.place_of.get(key) for key in keys)
        return self._rows(np.array([place for place in known if place is not None], dtype=np.intp))

    def shortcut(self, identity: str) -> Sequence[StoredId] | None:
        """Return what a shortcut holds; None: there is no such shortcut."""
        return self.shortcuts(identity)

    def _rows(self, places: NDArray[np.intp]) -> Rows:
        return Rows(partial(self._names, places), self.read(places))

    def _names(self, places: NDArray[np.intp]) -> list[str]:
        return [format_key(self.table.keys[place]) for place in places.tolist()]
