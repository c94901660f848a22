"""The search repeated with one more run each time: all runs but the newest are searched once."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np

from perftrend.analysis.description import Floats
from perftrend.analysis.mdl.cost_terms import Terms
from perftrend.analysis.mdl.numpy_search import PlainSearch
from perftrend.analysis.mdl.runs import FiniteRuns
from perftrend.analysis.mdl.search import new_search

_RETAINED = 4
"""Number of searches: an analysis makes one for each choice of outliers that it tries, usually two."""


@dataclass(frozen=True, slots=True, eq=False)
class _PartitionStart:
    search: PlainSearch
    terms: Terms
    known: Floats
    """The samples that were searched."""

    def fits(self, samples: Floats, terms: Terms) -> bool:
        """Return whether the search of these samples can continue this one."""
        known = self.known.size
        return (
            self.terms.constants == terms.constants
            and known < samples.size < self.terms.sizes.size
            and np.array_equal(self.known, samples[:known])
        )


class RepeatedSearch:
    """A search for the bounds of one series after another.

    In numpy, a series that begins with all but the newest run of an earlier one costs only its further runs.
    The newest run is searched separately, since the next analysis may exclude it as an outlier. Nothing is
    cached for the compiled search, which is fast enough without.
    """

    def __init__(self) -> None:
        self._begun: list[_PartitionStart] = []

    def bounds(self, runs: FiniteRuns, samples: Floats, terms: Terms, engine: str) -> list[int]:
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
            begun = _PartitionStart(PlainSearch(terms), terms, samples[:0])
        else:
            self._begun.remove(begun)
        begun.search.extend(lots[:, begun.known.size : -1])
        self._begun = [_PartitionStart(begun.search, begun.terms, samples[:-1].copy()), *self._begun][
            :_RETAINED
        ]
        newest = copy.copy(begun.search)
        newest.extend(lots[:, -1:])
        return newest.bounds()
