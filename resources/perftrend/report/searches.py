"""The searches of a run: the tests of a report with a search, and the number of each search.

NDR and PDR of a test come from the same search, which is therefore drawn once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from perftrend import message
from perftrend.errors import ArchiveError
from perftrend.model import Measurement, Result
from perftrend.report import search_graph


@dataclass(frozen=True)
class Search:
    """A search that can be drawn."""

    number: int
    """From 0, in the order of the results."""
    measurement: Measurement

    @cached_property
    def sentence(self) -> str:
        """A description of the graph."""
        return search_graph.sentence(self.measurement.phases, self._loss_ratios)

    @property
    def picture(self) -> str:
        """The graph as SVG."""
        one = self.measurement
        return search_graph.svg(one.phases, self._loss_ratios, simulated=one.simulated)

    @property
    def _loss_ratios(self) -> tuple[float, ...]:
        return tuple(self.measurement.loss_ratios.values())


def searches(results: Iterable[Result]) -> dict[str, Search]:
    """Return the searches of a run by the hashes of their traces.

    :param results: the run's results with their details; results without details have no search.
    """
    found: dict[str, Search] = {}
    drawn: dict[str, Search] = {}
    for result in results:
        if not result.details.get("phases"):
            continue
        told = json.dumps(result.details, sort_keys=True)
        if told not in drawn:
            try:
                drawn[told] = Search(len(drawn), message.measurement_of(result.details))
            except ArchiveError:
                # Such as one of a newer perftrend: its values are known, but its steps are not.
                continue
        found[result.key.hash] = drawn[told]
    return found
