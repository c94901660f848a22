"""Selectable values of each parameter, and the number of traces that each would leave."""

from __future__ import annotations

from perftrend.analysis.query import Choice
from perftrend.dashboard.explore.model import Condition, Parameter, Value
from perftrend.dashboard.explore.state import State
from perftrend.dashboard.explore.window import TESTBED, Window
from perftrend.errors import FormulaError

MOST_VALUES = 40
"""Maximum number of values that are offered for a parameter."""


def parameters(window: Window, state: State, *, matched: int) -> list[Parameter]:
    """Return the selectable values that contain ``state.find``, by parameter; selected values come first.

    :param matched: the number of traces that match the query.
    """
    try:
        choices = window.traces.choices(window.here(state.query))
    except FormulaError:
        # The drawing reports the error in the query.
        return []
    asked = state.query.by_key
    return [
        _parameter(state, name, values)
        for name, values in choices.items()
        # A value that all traces have is not a choice.
        if name in asked or (name != TESTBED and [each.count for each in values] != [matched])
    ]


def conditions(state: State) -> list[Condition]:
    """Return the conditions of the query, each with the address of the page without it."""
    return [
        Condition(
            text=str(term),
            name=term.key,
            value=term.value,
            negated=term.negated,
            pattern=term.pattern,
            optional=term.optional,
            without=state.without(term).url,
        )
        for term in state.terms
    ]


def _parameter(state: State, name: str, values: list[Choice]) -> Parameter:
    chosen = {value for key, value in state.chosen if key == name}
    wanted = state.find.lower()
    fitting = [
        each
        for each in values
        if each.value in chosen or wanted in each.value.lower() or wanted in name.lower()
    ]
    offered = sorted(fitting, key=lambda each: each.value not in chosen)[: max(MOST_VALUES, len(chosen))]
    return Parameter(
        name=name,
        values=[Value(value=each.value, count=each.count, chosen=each.value in chosen) for each in offered],
        of=len(values),
        hidden=len(fitting) - len(offered),
    )
