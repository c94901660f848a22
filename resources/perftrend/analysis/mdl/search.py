"""The search for the shortest description, in two editions that give the same answer.

:class:`~perftrend.analysis.mdl.plain.PlainSearch` needs numpy alone;
:class:`~perftrend.analysis.mdl.compiled.CompiledSearch` needs numba, which takes long to import, and is
imported when it is used. :mod:`~perftrend.analysis.mdl.engine` chooses between them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from perftrend.analysis.description import Floats
from perftrend.analysis.mdl.levels import cheapest_course
from perftrend.analysis.mdl.plain import PlainSearch
from perftrend.analysis.mdl.runs import Indices
from perftrend.analysis.mdl.terms import Terms
from perftrend.analysis.mdl.trim import trim


class Search(Protocol):
    """Fewest bits of all partitions of the runs so far; more runs can follow."""

    def extend(self, lots: Floats) -> None:
        """Take up more runs: sizes, averages and sums of squared deviations, shape (3, m)."""

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
    """Return :func:`perftrend.analysis.mdl.levels.cheapest_course`, compiled if the engine is."""
    if engine == "numpy":
        return cheapest_course
    from perftrend.analysis.mdl import kernel  # noqa: PLC0415 - see above

    compiled: Callable[..., Indices] = kernel.cheapest_course
    return compiled


def new_search(terms: Terms, *, capacity: int, engine: str) -> Search:
    """Begin a search.

    :param terms: the formula, for all runs that will ever follow.
    :param capacity: how many runs will probably follow.
    :param engine: ``compiled`` or ``numpy``.
    """
    if engine == "numpy":
        return PlainSearch(terms)
    from perftrend.analysis.mdl.compiled import CompiledSearch  # noqa: PLC0415 - see above

    return CompiledSearch(terms, capacity)
