"""The search repeated with one more run each time: what all but the newest run say is searched once."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np

from perftrend.analysis.description import Floats
from perftrend.analysis.mdl.plain import PlainSearch
from perftrend.analysis.mdl.runs import Runs
from perftrend.analysis.mdl.search import new_search
from perftrend.analysis.mdl.terms import Terms

_RETAINED = 4
"""Searches: an analysis makes one for each choice of outliers that it tries, two as a rule."""


@dataclass(frozen=True, slots=True, eq=False)
class _Begun:
    search: PlainSearch
    terms: Terms
    known: Floats
    """The samples that were searched."""

    def fits(self, samples: Floats, terms: Terms) -> bool:
        """Whether the search of these samples begins as this one."""
        known = self.known.size
        return (
            self.terms.constants == terms.constants
            and known < samples.size < self.terms.sizes.size
            and np.array_equal(self.known, samples[:known])
        )


class RepeatedSearch:
    """Finds the bounds of one series after the other.

    In numpy a series that begins as an earlier one, but for the newest run of that, costs only its further
    runs. The newest run is searched apart, since the next analysis may leave it out as an outlier. The
    compiled search takes so little time that nothing is retained.
    """

    def __init__(self) -> None:
        self._begun: list[_Begun] = []

    def bounds(self, runs: Runs, samples: Floats, terms: Terms, engine: str) -> list[int]:
        """Return where the groups of the best partition begin, and where the last one ends.

        :param runs: of one sample each.
        :param samples: those of ``runs``, in units.
        """
        lots = runs.lots(samples)
        if engine != "numpy":
            search = new_search(terms, capacity=samples.size, engine=engine)
            search.extend(lots)
            return search.bounds()
        fitting = [each for each in self._begun if each.fits(samples, terms)]
        begun = max(fitting, key=lambda each: each.known.size, default=None)
        if begun is None:
            begun = _Begun(PlainSearch(terms), terms, samples[:0])
        else:
            self._begun.remove(begun)
        begun.search.extend(lots[:, begun.known.size : -1])
        self._begun = [_Begun(begun.search, begun.terms, samples[:-1].copy()), *self._begun][:_RETAINED]
        newest = copy.copy(begun.search)
        newest.extend(lots[:, -1:])
        return newest.bounds()
