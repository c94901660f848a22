"""The figures of a run's measurements in its report: the graph of each search, and that of its latencies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from perftrend import message
from perftrend.errors import ArchiveError
from perftrend.measurement import Measurement
from perftrend.model import Result
from perftrend.report import latency_graph, search_graph


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture in a file of its own."""

    name: str
    """The name of the file without its suffix, such as ``search-0``."""
    title: str
    caption: str
    """A description of the picture."""
    draw: Callable[[], str]
    """Returns the picture as SVG."""


def figures_of(results: Iterable[Result]) -> dict[str, tuple[Figure, ...]]:
    """Return the figures of a run by the hashes of their traces.

    :param results: the run's results with their details; those of one measurement share its figures.
    """
    found: dict[str, tuple[Figure, ...]] = {}
    known: dict[str, tuple[Figure, ...]] = {}
    for result in results:
        if not result.details.get("phases") and not result.details.get("latency"):
            continue
        key = json.dumps(result.details, sort_keys=True)
        if key not in known:
            try:
                known[key] = tuple(_figures(len(known), message.measurement_of(result.details)))
            except ArchiveError:
                # Such as one of a newer perftrend: its values are known, but its steps are not.
                continue
        found[result.key.hash] = known[key]
    return found


def _figures(number: int, measured: Measurement) -> Iterator[Figure]:
    if phases := measured.phases:
        loss_ratios = tuple(measured.loss_ratios.values())
        yield Figure(
            f"search-{number}",
            "graph of the search",
            f"The search: {search_graph.sentence(phases, loss_ratios)}",
            partial(
                search_graph.svg,
                phases,
                loss_ratios,
                simulated=measured.simulated,
                style_sheet=search_graph.STYLE_SHEET,
            ),
        )
    if latency_graph.can_draw(measured.latency):
        yield Figure(
            f"latency-{number}",
            "graph of the latency",
            f"The latency: {latency_graph.sentence(measured.latency)}",
            partial(
                latency_graph.svg,
                measured.latency,
                simulated=measured.simulated,
                style_sheet=search_graph.STYLE_SHEET,
            ),
        )
