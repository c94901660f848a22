"""Samples of many traces at once, to estimate the noise of single runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from perftrend.store.connection import read_transaction
from perftrend.store.rows import unpack_samples
from perftrend.store.schema import results
from perftrend.store.trace_names import names_of
from perftrend.store.validity import USABLE

Runs: TypeAlias = tuple[int, ...]
"""Ids of the runs of a column."""

_AT_ONCE = 500


class Replicates:
    """The samples of a store; safe for several processes at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def of(self, wanted: Mapping[Runs, Sequence[int]]) -> dict[tuple[Runs, int], tuple[float, ...]]:
        """Return the samples of traces in columns, in the order of the runs.

        :param wanted: the ids of the requested traces, by the runs of the column.
        :returns: samples by the runs of the column and the id of the trace; traces without samples that may
            enter a trend are omitted.
        """
        found: dict[tuple[Runs, int], tuple[float, ...]] = {}
        with read_transaction(self._engine) as connection:
            names = names_of(connection)
            query = sa.select(results.c.run_id, names.trace_id, results.c.samples)
            query = query.where(USABLE, names.counts)
            for runs, ids in wanted.items():
                for some in _parts(ids):
                    chosen = results.c.run_id.in_(runs) & results.c.trace_id.in_(names.with_former(some))
                    rows = connection.execute(query.where(chosen)).all()
                    for _, trace, samples in sorted(rows, key=lambda row: (runs.index(row[0]), row[1])):
                        found[runs, trace] = (*found.get((runs, trace), ()), *unpack_samples(samples))
        return {key: samples for key, samples in found.items() if samples}


def _parts(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(ids), _AT_ONCE):
        yield ids[start : start + _AT_ONCE]
