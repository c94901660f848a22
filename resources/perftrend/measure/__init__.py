"""Measuring: how fast a device forwards, found by sending at chosen rates."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perftrend.measure.search import (
        HoldResult,
        SearchResult,
        SoakResult,
        binary_search,
        hold,
        mdr_search,
        measure_mrr,
        soak,
    )

__all__ = [
    "HoldResult",
    "SearchResult",
    "SoakResult",
    "binary_search",
    "hold",
    "mdr_search",
    "measure_mrr",
    "soak",
]


def __getattr__(name: str) -> object:
    """Import the searches when they are asked for: generator and device are started often, and need none."""
    if name in __all__:
        return getattr(import_module("perftrend.measure.search"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
