"""The selection of traces by queries, among a hundred thousand; no input or output.

A :class:`TraceTable` contains the parameters of all traces in columns of numbers. It selects the traces that
match a query, and counts the traces that each further value would leave. :class:`TraceSource` provides the
rows of formulas.
"""

from perftrend.analysis.query.columns import ParameterCodes, Parameters
from perftrend.analysis.query.parser import (
    MOST_PATTERNS,
    format_skia_name,
    import_queries,
    parse,
    parse_skia_name,
)
from perftrend.analysis.query.table import TraceSource, TraceTable, ValueChoice, find_contrast

__all__ = [
    "MOST_PATTERNS",
    "ParameterCodes",
    "Parameters",
    "TraceSource",
    "TraceTable",
    "ValueChoice",
    "find_contrast",
    "format_skia_name",
    "import_queries",
    "parse",
    "parse_skia_name",
]
