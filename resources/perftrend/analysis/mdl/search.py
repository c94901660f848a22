"""The search for the shortest description, in two implementations that return the same result.

:class:`~perftrend.analysis.mdl.numpy_search.PlainSearch` needs only numpy;
:class:`~perftrend.analysis.mdl.compiled_search.CompiledSearch` needs numba, which takes long to import, and
    is
imported on first use. :mod:`~perftrend.analysis.mdl.engine` chooses between them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from perftrend.analysis.description import Floats
from perftrend.analysis.mdl.cost_terms import Terms
from perftrend.analysis.mdl.level_path import cheapest_course
from perftrend.analysis.mdl.numpy_search import PlainSearch
from perftrend.analysis.mdl.runs import Indices
from perftrend.analysis.mdl.trim import trim


class PartitionSearch(Protocol):
    """A search for the partition of the runs so far with the fewest bits; runs can be added."""

    def extend(self, lots: Floats) -> None:
        """Add runs: sizes, averages and sums of squared deviations, shape (3, m)."""

    def bounds(self) -> list[int]:
        """Return where the groups of the best partition begin, and where the last one ends."""


def trimmer(engine: str) -> Callable[..., None]:
    """Return :func:`perftrend.analysis.mdl.trim.trim`, compiled if the engine is."""
    if engine == "numpy":
        return trim
    from perftrend.analysis.mdl import kernel  # noqa: PLC0415 - see above

    compiled: Callable[..., None] = kernel.trim
    return compiled


def course_finder(engine: str) -> Callable[..., Indices]:
    """Return :func:`perftrend.analysis.mdl.level_path.cheapest_course`, compiled if the engine is."""
    if engine == "numpy":
        return cheapest_course
    from perftrend.analysis.mdl import kernel  # noqa: PLC0415 - see above

    compiled: Callable[..., Indices] = kernel.cheapest_course
    return compiled


def new_search(terms: Terms, *, capacity: int, engine: str) -> PartitionSearch:
    """Create a search.

    :param terms: the formula, for all runs that will be added.
    :param capacity: the expected number of runs.
    :param engine: ``compiled`` or ``numpy``.
    """
    if engine == "numpy":
        return PlainSearch(terms)
    from perftrend.analysis.mdl.compiled_search import CompiledSearch  # noqa: PLC0415 - see above

    return CompiledSearch(terms, capacity)
