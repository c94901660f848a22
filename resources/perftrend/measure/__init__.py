"""Measuring: how fast a device forwards, found by sending at chosen rates."""

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
