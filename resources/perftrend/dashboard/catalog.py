"""All traces of the store in memory: which there are, and which ones a query fits.

A trace is never taken away or changed, so the catalog only grows. Who enters new traces does so alone, so
none with a smaller id comes later. Each use asks the store for traces with greater ids than it knows, which
an index answers at once, and the table is made anew where there are some.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.formula import Query, Term
from perftrend.analysis.query import Choice, TraceTable
from perftrend.model import Better, TraceKey
from perftrend.store import Store
from perftrend.store.tiles import StoredTrace

_CHOICES = 4
"""Queries whose choices are kept: each has as many as there are values."""


@dataclass(frozen=True, eq=False)
class Traces:
    """The traces of one moment: rows of the table and stored traces have the same order."""

    stored: tuple[StoredTrace, ...]
    """By their ids, ascending."""

    @cached_property
    def table(self) -> TraceTable:
        """What they are selected by: their parameters, and beside these ``unit`` and ``better``."""
        more = {
            "unit": [each.unit for each in self.stored],
            "better": [str(each.better) for each in self.stored],
        }
        return TraceTable([each.key for each in self.stored], more)

    @cached_property
    def choices(self) -> Callable[[Query], dict[str, list[Choice]]]:
        """From a query to what each further value would leave; not to be changed."""
        # Each value of each parameter is counted, and most pages begin with the same few queries.
        return lru_cache(maxsize=_CHOICES)(self.table.choices)

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        """The ids of the traces, in their order."""
        return np.fromiter((trace.trace_id for trace in self.stored), np.int64, len(self.stored))

    @cached_property
    def units(self) -> NDArray[np.object_]:
        """The units of the traces, in their order."""
        return np.array([trace.unit for trace in self.stored], dtype=np.object_)

    @cached_property
    def lower_is_better(self) -> NDArray[np.bool_]:
        """Of which traces low values are good, in their order."""
        return np.array([trace.better is Better.LOWER for trace in self.stored], dtype=bool)

    @cached_property
    def by_hash(self) -> dict[str, StoredTrace]:
        """The traces by the hash of their key."""
        return {trace.hash: trace for trace in self.stored}

    def prepare(self) -> None:
        """Make all of these, instead of each when a page first asks for it."""
        _ = self.ids, self.units, self.lower_is_better, self.by_hash, self.table.place_of

    def of_testbed(self, testbed: str) -> NDArray[np.intp]:
        """Return the rows of the traces of a testbed, ascending."""
        return self.table.rows(Query((Term("testbed", testbed),)))

    def of_key(self, key: TraceKey) -> StoredTrace | None:
        """Return the trace of a key, if there is one."""
        place = self.table.place_of.get(key)
        return None if place is None else self.stored[place]


class Catalog:
    """The traces of a store; safe for several threads.

    ::

        now = site.catalog.now()          # table and traces of one moment
        chosen = now.table.rows(query)
        ids = [now.stored[row].trace_id for row in chosen]
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._now = Traces(())

    def now(self) -> Traces:
        """Return what there is, those that were stored a moment ago included.

        :raises StoreError: if the store cannot be read.
        """
        with self._lock:
            newest = self._now.stored[-1].trace_id if self._now.stored else 0
            more = self._store.tiles.traces(after=newest)
            if more:
                found = Traces((*self._now.stored, *more))
                # Those who wait meanwhile would otherwise all make it.
                found.prepare()
                self._now = found
            return self._now

    def table(self) -> TraceTable:
        """Return the table of all traces; for rows of it use :meth:`now`, which has both."""
        return self.now().table
