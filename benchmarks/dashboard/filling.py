"""Fills a store with many traces in minutes: the values of older nights are only in the tiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest import mock

import numpy as np
from sqlalchemy.engine import Connection

from benchmarks.tiles import TESTBED, keys, night, run_of
from perftrend.dashboard.catalog import Catalog
from perftrend.dashboard.triage import evaluate
from perftrend.model import Samples, TraceKey
from perftrend.store import Store
from perftrend.store.alerts import Rules
from perftrend.store.tiles import TileColumn, writer
from perftrend.store.tiles.reader import Ids

WITH_RESULTS = 2
"""The number of newest nights, whose results are in the store as well."""
WATCHED = "frame=64B&metric=mrr"
"""The query of the alert."""
_CHANGED = 50
"""One trace in this number has a step."""
_STEP = -0.06
_NEWER = 20
"""The step is this number of commits ago."""


def look_for_changes(store: Store) -> None:
    """Evaluate an alert on some traces, so that there is something to triage."""
    if not store.alerts.all():
        store.alerts.add(Rules("nightly", WATCHED, change=-_STEP / 2), user="benchmark")
    evaluate(store, Catalog(store), TESTBED)


class Nights:
    """The nights of a testbed: those in the store, and those to come."""

    def __init__(self, store: Store, traces: int) -> None:
        self._store = store
        self._keys: Sequence[TraceKey] = keys(traces)
        self._generator = np.random.default_rng(1)
        self._next = 0

    def fill(self, commits: int) -> None:
        """Store a number of nights, unless an earlier run has done so."""
        known, there = len(self._store.tiles.axis(TESTBED).columns), len(self._store.tiles.traces())
        if known:
            if known < commits or there != len(self._keys):
                raise SystemExit(f"the store has {there} traces of {known} commits; name another one")
            self._next = known
            return
        older = commits - WITH_RESULTS
        self.measure()
        self._store.add_all((run_of(build), []) for build in range(1, older))
        self._next = older
        self._store.tiles.forget()
        with self._random_tiles(older):
            self._store.tiles.remake()
        for _ in range(WITH_RESULTS):
            self.measure()

    def measure(self, traces: int | None = None) -> None:
        """Store the next night.

        :param traces: the number of first traces that were measured; None: all.
        """
        night(self._store, self._keys[:traces], self._next, self._generator)
        self._next += 1

    @contextmanager
    def _random_tiles(self, commits: int) -> Iterator[None]:
        """Make tiles from random values."""
        count, generator = len(self._keys), self._generator
        changed = {run_of(build).versions["device"] for build in range(commits - _NEWER, commits)}

        def values_of(_: Connection, columns: Sequence[TileColumn], ids: Ids) -> Samples:
            values = generator.normal(1e7, 1e5, (len(columns), len(ids)))
            late = np.array([column.revision in changed for column in columns])
            values[np.ix_(late, ids % _CHANGED == 0)] *= 1 + _STEP
            values[:, (ids < 1) | (ids > count)] = np.nan
            return values

        with (
            mock.patch.object(writer, "values_of", values_of),
            mock.patch.object(writer, "range_of", return_value=(1, count)),
        ):
            yield
