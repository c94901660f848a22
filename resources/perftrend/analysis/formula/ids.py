"""Trace ids: the names of rows in plots, shortcuts and URLs.

===============================  ==========================================================
``,test=x,testbed=y,``           a normal trace
``!norm(,test=x,testbed=y,)``    a calculated trace: functions applied to a normal one
``@norm(filter("test=x"))``      a formula trace: a formula that is to be evaluated
===============================  ==========================================================

Source: "Skia Perf: Design", section Trace IDs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from perftrend.analysis.formula.keys import format_key, parse_key
from perftrend.analysis.formula.parser import parse, parse_calculated
from perftrend.analysis.formula.tree import Call, TraceNode
from perftrend.errors import FormulaError
from perftrend.model import TraceKey

_Read = TypeVar("_Read")
_CALCULATED = re.compile(r"(?:[a-z_]+\()*,")


@dataclass(frozen=True, slots=True)
class NormalId:
    """A trace of the store."""

    key: TraceKey

    def __str__(self) -> str:
        return format_key(self.key)


@dataclass(frozen=True, slots=True)
class CalculatedId:
    """The result of a formula for one normal trace. It is not stored: its formula computes it again."""

    name: Call | TraceNode

    def __str__(self) -> str:
        return f"!{self.name}"


@dataclass(frozen=True, slots=True)
class FormulaId:
    """A formula. It is stored, and shown even while it returns no row."""

    formula: Call

    def __str__(self) -> str:
        return f"@{self.formula}"


TraceId: TypeAlias = NormalId | CalculatedId | FormulaId
StoredId: TypeAlias = NormalId | FormulaId
"""An element of a shortcut."""


def parse_trace_id(text: str) -> TraceId:
    """Read a trace id of any of the three forms.

    :raises FormulaError: if it is not a trace id, with the position of the error.
    """
    match text[:1]:
        case "!":
            return CalculatedId(_after_mark(parse_calculated, text))
        case "@":
            return FormulaId(_after_mark(parse, text))
        case _:
            return NormalId(parse_key(text))


def parse_stored_ids(texts: Iterable[str]) -> tuple[StoredId, ...]:
    """Return the ids of a plot that a shortcut stores: normal traces and formulas, each once, in their order.

    Calculated traces are omitted: the formulas compute them again.

    :raises FormulaError: if one of the texts is not a trace id.
    """
    ids = (parse_trace_id(text) for text in texts)
    return tuple(dict.fromkeys(each for each in ids if not isinstance(each, CalculatedId)))


def row_id(name: str) -> str:
    """Return the trace id of a row that was named by an evaluation.

    A row that was computed from a normal trace alone is calculated; any other is the row of a formula.
    """
    if name.startswith(","):
        return name
    return f"!{name}" if _CALCULATED.match(name) else f"@{name}"


def _after_mark(read: Callable[[str], _Read], text: str) -> _Read:
    try:
        return read(text[1:])
    except FormulaError as error:
        raise FormulaError("trace id", error.position + 1, error.reason) from None
