"""Which traces a person means, among a hundred thousand; no input or output.

A :class:`TraceTable` holds the parameters of all traces in columns of numbers. It selects the traces that a
query fits, and counts what each further value would leave. :class:`TraceSource` gives formulas their rows.
"""

from perftrend.analysis.query.coded import Coded, Parameters
from perftrend.analysis.query.names import documented_name, parse_documented_name
from perftrend.analysis.query.patterns import MOST_PATTERNS, parse
from perftrend.analysis.query.skia import import_queries
from perftrend.analysis.query.source import TraceSource
from perftrend.analysis.query.table import Choice, TraceTable

__all__ = [
    "MOST_PATTERNS",
    "Choice",
    "Coded",
    "Parameters",
    "TraceSource",
    "TraceTable",
    "documented_name",
    "import_queries",
    "parse",
    "parse_documented_name",
]
