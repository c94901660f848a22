"""The formula language of the dashboard: arithmetic on traces, written as calls; no input or output.

``parse`` reads a formula such as ``norm(filter("driver=avf&metric=mrr"))``, ``evaluate`` returns its rows,
and ``FUNCTIONS`` is the table of its functions. The caller provides the rows by a :class:`Source`.
``parse_trace_id`` distinguishes normal, calculated and formula traces, and ``parse_query`` reads the argument
of ``filter``.
"""

from perftrend.analysis.formula.evaluation import DEFAULT_LIMITS, EvaluationLimits, RowSource, evaluate
from perftrend.analysis.formula.functions import FUNCTIONS, ArgumentKind, Function, FunctionParameter, Makes
from perftrend.analysis.formula.ids import (
    CalculatedId,
    FormulaId,
    NormalId,
    StoredId,
    TraceId,
    parse_stored_ids,
    parse_trace_id,
    row_id,
)
from perftrend.analysis.formula.keys import format_key, parse_key
from perftrend.analysis.formula.parser import parse
from perftrend.analysis.formula.query import Query, Term, parse_query
from perftrend.analysis.formula.rows import Rows
from perftrend.analysis.formula.tree import Argument, Call, Number, Text, TraceNode

__all__ = [
    "DEFAULT_LIMITS",
    "FUNCTIONS",
    "Argument",
    "ArgumentKind",
    "CalculatedId",
    "Call",
    "EvaluationLimits",
    "FormulaId",
    "Function",
    "FunctionParameter",
    "Makes",
    "NormalId",
    "Number",
    "Query",
    "RowSource",
    "Rows",
    "StoredId",
    "Term",
    "Text",
    "TraceId",
    "TraceNode",
    "evaluate",
    "format_key",
    "parse",
    "parse_key",
    "parse_query",
    "parse_stored_ids",
    "parse_trace_id",
    "row_id",
]
