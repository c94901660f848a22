"""Bands of the replicates of each point, if few traces are drawn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from perftrend.dashboard.explore.lines import PointLine
from perftrend.dashboard.explore.state import Spread
from perftrend.dashboard.explore.window import Window
from perftrend.model import Samples
from perftrend.store.tiles import StoredTrace

MOST_TRACES = 10
"""Maximum number of traces whose replicates are read."""

_PERCENTILES = {Spread.RANGE: (0.0, 100.0), Spread.QUARTILES: (25.0, 75.0)}


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """Lower and upper limit of the replicates of each point, shapes (points,), NaN if there are none."""

    low: Samples
    high: Samples


def bands(window: Window, lines: Iterable[PointLine], spread: Spread) -> dict[str, Band] | None:
    """Return the bands of normal traces by their ids.

    :returns: None if there are too many, or a point covers more than one column.
    """
    wanted = {line.identity: line.trace for line in lines if line.trace and line.is_normal}
    if spread is Spread.NONE:
        return {}
    if len(wanted) > MOST_TRACES or window.tile.scale:
        return None
    of_testbed: dict[str, dict[str, StoredTrace]] = {}
    for identity, trace in wanted.items():
        of_testbed.setdefault(window.testbed_of(trace), {})[identity] = trace
    return {
        identity: _band(samples, spread)
        for testbed, traces in of_testbed.items()
        for identity, samples in _samples(window, testbed, traces).items()
    }


def _samples(
    window: Window, testbed: str, traces: Mapping[str, StoredTrace]
) -> dict[str, list[tuple[float, ...]]]:
    """Return the replicates at each point of traces of one testbed."""
    known = [window.column_at(testbed, number) for number in window.columns]
    columns = [column for column in known if column]
    found = window.store.tiles.samples([trace.trace_id for trace in traces.values()], columns)
    # A commit that the testbed did not measure has no column.
    places = np.cumsum([column is not None for column in known]) - 1
    return {
        identity: [
            found.get((trace.trace_id, place), ()) if column else ()
            for place, column in zip(places.tolist(), known, strict=True)
        ]
        for identity, trace in traces.items()
    }


def _band(samples: list[tuple[float, ...]], spread: Spread) -> Band:
    limits = np.full((len(samples), 2), np.nan)
    for place, replicates in enumerate(samples):
        if replicates:
            limits[place] = np.percentile(replicates, _PERCENTILES[spread])
    return Band(limits[:, 0], limits[:, 1])
