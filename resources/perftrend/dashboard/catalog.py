"""In-memory catalog of all traces of the store, for queries by parameters.

Traces are never removed or changed, so the catalog only grows. Writers of new traces are serialized, so ids
only increase. Each use queries the store for traces with greater ids than the known ones, which an index
makes fast. The whole catalog is only read again after a rename.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.formula import Query, Term
from perftrend.analysis.query import TraceTable, ValueChoice
from perftrend.model import Better, TraceKey
from perftrend.store import Store
from perftrend.store.renames import FormerTrace
from perftrend.store.tiles import StoredTrace

_CHOICES = 4
"""Number of queries whose choices are cached; each of them has as many choices as there are values."""


@dataclass(frozen=True, eq=False)
class Traces:
    """The traces at one time; all attributes are in the order of ascending ids."""

    stored: tuple[StoredTrace, ...]
    table: TraceTable
    """The parameters that traces are selected by, including ``unit`` and ``better``."""
    ids: NDArray[np.int64]
    units: NDArray[np.object_]
    lower_is_better: NDArray[np.bool_]
    """Whether low values of a trace are better, shape (traces,)."""
    by_hash: dict[str, StoredTrace]
    """The traces by the hashes of their current and former keys."""

    @classmethod
    def of(
        cls, stored: Sequence[StoredTrace], former: Mapping[str, Mapping[str, str]] | None = None
    ) -> Traces:
        """Return the catalog of traces.

        :param stored: the traces in the order of their ids.
        :param former: current values of parameters by former ones, for each parameter.
        """
        units = [trace.unit for trace in stored]
        better = [str(trace.better) for trace in stored]
        return cls(
            stored=tuple(stored),
            table=TraceTable(
                [trace.key for trace in stored], {"unit": units, "better": better}, former=former
            ),
            ids=np.array([trace.trace_id for trace in stored], dtype=np.int64),
            units=np.array(units, dtype=np.object_),
            lower_is_better=np.array([trace.better is Better.LOWER for trace in stored], dtype=bool),
            by_hash={trace.hash: trace for trace in stored},
        )

    def concatenate(self, more: Traces) -> Traces:
        """Return these traces and others, which have greater ids."""
        return Traces(
            stored=(*self.stored, *more.stored),
            table=self.table.concatenate(more.table),
            ids=np.concatenate((self.ids, more.ids)),
            units=np.concatenate((self.units, more.units)),
            lower_is_better=np.concatenate((self.lower_is_better, more.lower_is_better)),
            by_hash=self.by_hash | more.by_hash,
        )

    def with_former(self, former: Sequence[FormerTrace]) -> Traces:
        """Add former keys and their hashes, in place, and return these traces."""
        places = np.searchsorted(self.ids, [each.current_id for each in former])
        for each, place in zip(former, places.tolist(), strict=True):
            self.by_hash[each.hash] = self.stored[place]
            self.table.place_of[each.key] = place
        return self

    @cached_property
    def choices(self) -> Callable[[Query], dict[str, list[ValueChoice]]]:
        """Function from a query to the choices for narrowing it; callers must not modify the result."""
        # Counting all values of all parameters is slow, and most pages begin with the same few queries.
        return lru_cache(maxsize=_CHOICES)(self.table.choices)

    def of_testbed(self, testbed: str) -> NDArray[np.intp]:
        """Return the rows of the traces of a testbed, in ascending order."""
        return self.table.rows(Query((Term("testbed", testbed),)))

    def of_key(self, key: TraceKey) -> StoredTrace | None:
        """Return the trace with a key, or None."""
        place = self.table.place_of.get(key)
        return None if place is None else self.stored[place]


class Catalog:
    """The traces of a store; thread-safe.

    ::

        now = site.catalog.now()          # table and traces at one time
        chosen = now.table.rows(query)
        ids = [now.stored[row].trace_id for row in chosen]
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._now = Traces.of(())
        self._renames: Hashable = None

    def now(self) -> Traces:
        """Return the current traces, including newly stored ones.

        :raises StoreError: if the store cannot be read.
        """
        with self._lock:
            version = self._store.renames.version()
            if version != self._renames:
                self._now, self._renames = self._read(), version
            newest = self._now.stored[-1].trace_id if self._now.stored else 0
            more = self._store.tiles.traces(after=newest)
            if more:
                self._now = self._now.concatenate(Traces.of(more))
            return self._now

    def _read(self) -> Traces:
        names = self._store.renames
        former, current = names.former_traces(), names.names().former
        return Traces.of(self._store.tiles.traces(), current).with_former(former)

    def table(self) -> TraceTable:
        """Return the table of all traces; if you also need the traces of its rows, use :meth:`now`."""
        return self.now().table
