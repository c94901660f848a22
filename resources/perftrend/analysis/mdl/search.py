"""The search for the shortest description, in two editions that give the same answer.

:class:`~perftrend.analysis.mdl.plain.PlainSearch` needs numpy alone,
:class:`~perftrend.analysis.mdl.compiled.CompiledSearch` needs numba too (``pip install
perftrend[fast]``) and is some twenty to a hundred times as fast.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from typing import Protocol

from perftrend import errors
from perftrend.analysis.description import Floats
from perftrend.analysis.mdl.levels import cheapest_course
from perftrend.analysis.mdl.plain import PlainSearch
from perftrend.analysis.mdl.runs import Indices
from perftrend.analysis.mdl.terms import Terms
from perftrend.analysis.mdl.trim import trim

ENGINES = ("fastest", "compiled", "numpy")


class Search(Protocol):
    """Fewest bits of all partitions of the runs so far; more runs can follow."""

    def extend(self, lots: Floats) -> None:
        """Take up more runs: sizes, averages and sums of squared deviations, shape (3, m)."""

    def bounds(self) -> list[int]:
        """Return where the groups of the best partition begin, and where the last one ends."""


@functools.cache
def is_compiled() -> bool:
    """Whether numba is installed."""
    return importlib.util.find_spec("numba") is not None


def trimmer(engine: str) -> Callable[..., None]:
    """Return :func:`perftrend.analysis.mdl.trim.trim`, compiled if the engine is."""
    if engine == "numpy" or not is_compiled():
        return trim
    from perftrend.analysis.mdl import kernel  # noqa: PLC0415 - as below

    compiled: Callable[..., None] = kernel.trim
    return compiled


def course_finder(engine: str) -> Callable[..., Indices]:
    """Return :func:`perftrend.analysis.mdl.levels.cheapest_course`, compiled if the engine is."""
    if engine == "numpy" or not is_compiled():
        return cheapest_course
    from perftrend.analysis.mdl import kernel  # noqa: PLC0415 - as below

    compiled: Callable[..., Indices] = kernel.cheapest_course
    return compiled


def new_search(terms: Terms, *, capacity: int, engine: str = "fastest") -> Search:
    """Begin a search.

    :param terms: the formula, for all runs that will ever follow.
    :param capacity: how many runs will probably follow.
    :param engine: ``compiled``, ``numpy``, or ``fastest`` for the faster one that is installed.
    :raises SettingsError: if there is no such engine, or its library is not installed.
    """
    if engine not in ENGINES:
        hint = errors.nearest(engine, ENGINES)
        raise errors.SettingsError(f"partition: no engine is named {engine!r}{hint}")
    if engine == "numpy" or (engine == "fastest" and not is_compiled()):
        return PlainSearch(terms)
    if not is_compiled():
        raise errors.SettingsError(
            "partition: engine 'compiled' needs numba, which is not installed; "
            "pip install 'perftrend[fast]', or leave the engine out"
        )
    # Importing numba takes a second: only who partitions a series pays it.
    from perftrend.analysis.mdl.compiled import CompiledSearch  # noqa: PLC0415 - so it is late

    return CompiledSearch(terms, capacity)
