"""Unit of the result of a formula, if its functions preserve units."""

from __future__ import annotations

from perftrend.analysis.formula import FUNCTIONS, Call, FormulaId, Makes, NormalId, Text
from perftrend.analysis.formula.query import parse_filter
from perftrend.dashboard.explore.window import Window

_UNIT_PRESERVING = frozenset(
    {"fill", "iqrr", "trace_ave", "trace_stddev", "ave", "avg", "sum", "geo", "std_dev", "min", "max"}
)


def unit_of(window: Window, call: Call) -> str:
    """Return the unit of all rows of a formula; empty: dimensionless, or several units."""
    if FUNCTIONS[call.function].makes is Makes.FOUND:
        units = _find_units(window, call)
    elif call.function in _UNIT_PRESERVING:
        units = {unit_of(window, each) for each in call.arguments if isinstance(each, Call)}
    else:
        units = set()
    return units.pop() if len(units) == 1 else ""


def _find_units(window: Window, call: Call) -> set[str]:
    (text,) = (each.value for each in call.arguments if isinstance(each, Text))
    wanted = parse_filter(text) if call.function == "filter" else text
    if isinstance(wanted, str):
        held = window.source.shortcut(wanted) or ()
        known = (window.traces.of_key(each.key) for each in held if isinstance(each, NormalId))
        formulas = any(isinstance(each, FormulaId) for each in held)
        return {trace.unit for trace in known if trace} | ({""} if formulas else set())
    return set(window.traces.units[window.select(wanted)].tolist())


def display_unit(unit: str) -> tuple[str, float]:
    """Return the displayed unit, and the factor that converts values to it."""
    return ("Mpps", 1e-6) if unit == "pps" else (unit, 1.0)
