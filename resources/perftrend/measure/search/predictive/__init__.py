"""The predictive search: short trials foretell where the bounds are, long ones prove them."""

from perftrend.measure.search.predictive.strategy import search

__all__ = ["search"]
