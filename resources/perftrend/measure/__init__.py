"""Measurement of the rate that a device forwards, by sending traffic at chosen rates."""

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
    """Import the searches on access: generator and device processes start often and do not need them."""
    if name in __all__:
        return getattr(import_module("perftrend.measure.search"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
