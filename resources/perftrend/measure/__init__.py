"""Measuring: how fast a device forwards, found by sending at chosen rates."""

from perftrend.measure.search import SearchResult, binary_search, mdr_search, measure_mrr

__all__ = ["SearchResult", "binary_search", "mdr_search", "measure_mrr"]
