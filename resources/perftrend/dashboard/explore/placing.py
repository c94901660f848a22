"""Default testbed of an address: the one that its query, trace ids or shortcut name."""

from __future__ import annotations

from collections.abc import Iterator

from perftrend.analysis.formula import (
    CalculatedId,
    Call,
    NormalId,
    Query,
    Text,
    Trace,
    TraceId,
    parse_trace_id,
)
from perftrend.analysis.formula.query import parse_filter
from perftrend.dashboard.explore.state import State
from perftrend.dashboard.explore.window import TESTBED
from perftrend.dashboard.recent import usual_testbed
from perftrend.dashboard.site import Site
from perftrend.errors import FormulaError


def placed(site: Site, state: State) -> State:
    """Return the state with the testbed that it refers to, if that is not the usual one."""
    if state.testbed:
        return state
    testbeds = site.store.tiles.testbeds()
    wanted = next((each for each in _named(site, state) if each in testbeds), "")
    return state.but(testbed=wanted) if wanted and wanted != usual_testbed(site, testbeds) else state


def _named(site: Site, state: State) -> Iterator[str]:
    """Yield the testbeds that the selection names."""
    yield from _of_query(state.query)
    for text in state.ids:
        yield from _of_text(text)
    for text in site.store.shortcuts.held(state.shortcut) or () if state.shortcut else ():
        yield from _of_text(text)


def _of_text(text: str) -> Iterator[str]:
    try:
        yield from _of_id(parse_trace_id(text))
    except FormulaError:
        # The drawing reports the error.
        return


def _of_id(identity: TraceId) -> Iterator[str]:
    if isinstance(identity, NormalId):
        yield from _of_formula(Trace(identity.key))
    else:
        yield from _of_formula(identity.name if isinstance(identity, CalculatedId) else identity.formula)


def _of_formula(part: object) -> Iterator[str]:
    if isinstance(part, Trace):
        yield part.key.as_dict().get(TESTBED, "")
    elif isinstance(part, Call):
        for each in part.arguments:
            if isinstance(each, Text) and part.function == "filter":
                query = parse_filter(each.value)
                yield from _of_query(query) if isinstance(query, Query) else ()
            else:
                yield from _of_formula(each)


def _of_query(query: Query) -> Iterator[str]:
    return (term.value for term in query.by_key.get(TESTBED, ()) if not (term.pattern or term.negated))
