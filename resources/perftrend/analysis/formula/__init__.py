"""The formula language of the dashboard: arithmetic on traces, written as calls; no input or output.

``parse`` reads a formula such as ``norm(filter("driver=avf&metric=mrr"))``, ``evaluate`` returns its rows,
and ``FUNCTIONS`` is the table of its functions. The caller provides the rows by a :class:`Source`.
``parse_trace_id`` distinguishes normal, calculated and formula traces, and ``parse_query`` reads the argument
of ``filter``.
"""

from perftrend.analysis.formula.evaluation import DEFAULT_LIMITS, Limits, Source, evaluate
from perftrend.analysis.formula.functions import FUNCTIONS, Function, Makes, Parameter, Takes
from perftrend.analysis.formula.ids import (
    CalculatedId,
    FormulaId,
    NormalId,
    StoredId,
    TraceId,
    parse_trace_id,
    row_id,
    stored_ids,
)
from perftrend.analysis.formula.keys import format_key, parse_key
from perftrend.analysis.formula.parsing import parse
from perftrend.analysis.formula.query import Query, Term, parse_query
from perftrend.analysis.formula.rows import Rows
from perftrend.analysis.formula.tree import Argument, Call, Number, Text, Trace

__all__ = [
    "DEFAULT_LIMITS",
    "FUNCTIONS",
    "Argument",
    "CalculatedId",
    "Call",
    "FormulaId",
    "Function",
    "Limits",
    "Makes",
    "NormalId",
    "Number",
    "Parameter",
    "Query",
    "Rows",
    "Source",
    "StoredId",
    "Takes",
    "Term",
    "Text",
    "Trace",
    "TraceId",
    "evaluate",
    "format_key",
    "parse",
    "parse_key",
    "parse_query",
    "parse_trace_id",
    "row_id",
    "stored_ids",
]
