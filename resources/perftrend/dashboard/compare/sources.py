"""Origin of the values of one side, computed per cell: a table has many more cells than a page shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.formula import format_key
from perftrend.dashboard.catalog import Traces
from perftrend.dashboard.compare.patches import ComparedTest, PatchSamples
from perftrend.dashboard.compare.values import TraceValues
from perftrend.store.tiles import TileColumn

_SOME = 20


@dataclass(frozen=True, slots=True)
class ValueOrigin:
    """Origin of one value of a cell."""

    trace: str
    """The id of the trace; for a patch set, the name of the test."""
    value: float
    column: TileColumn | None
    """Where it was measured; None if there is no value, or for a patch set."""
    distance: int
    """Number of columns from the requested place to that one; negative: before it."""


Sides = Callable[[int], ValueOrigin]
"""One side of all pairs, by the number of the pair."""


@dataclass(frozen=True, slots=True)
class Alone:
    """Traces or tests without a partner on the other side."""

    count: int = 0
    some: tuple[str, ...] = ()
    """The first of them."""

    @classmethod
    def of_traces(cls, now: Traces, places: NDArray[np.intp]) -> Alone:
        """Return traces, by their ids."""
        return cls(len(places), tuple(format_key(now.stored[place].key) for place in places[:_SOME].tolist()))

    @classmethod
    def of_tests(cls, names: Sequence[str]) -> Alone:
        """Return tests of a patch set, by their names."""
        return cls(len(names), tuple(names[:_SOME]))


NONE_ALONE = Alone()


def of_traces(trace_values: TraceValues) -> Sides:
    """Return the side of values of traces."""

    def side(number: int) -> ValueOrigin:
        return ValueOrigin(
            format_key(trace_values.trace(number).key),
            float(trace_values.values.value[number]),
            trace_values.column(number),
            int(trace_values.distance[number]),
        )

    return side


def of_tests(tests: Sequence[ComparedTest], sampled: Sequence[PatchSamples]) -> Sides:
    """Return the side of values of tests of a patch set."""

    def side(number: int) -> ValueOrigin:
        return ValueOrigin(tests[number].trace.test, sampled[number].value, None, 0)

    return side
