"""The predictive search: short trials predict the bounds, long trials prove them."""

from perftrend.measure.search.predictive.strategy import search

__all__ = ["search"]
