"""The endpoint of Explore. The testbed that an address defaults to is inferred from its selection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter, Request, Response

from perftrend.analysis.formula import (
    FUNCTIONS,
    CalculatedId,
    Call,
    NormalId,
    Query,
    Text,
    TraceId,
    TraceNode,
    parse_trace_id,
)
from perftrend.analysis.formula.query import parse_filter
from perftrend.dashboard.auth import Viewer
from perftrend.dashboard.context import AppContext, Context, usual_testbed
from perftrend.dashboard.error_pages import Fault
from perftrend.dashboard.explore.csv_export import as_csv
from perftrend.dashboard.explore.line_table import line_table
from perftrend.dashboard.explore.models import Explore
from perftrend.dashboard.explore.plot_data import encode_plot, is_dense
from perftrend.dashboard.explore.presenter import (
    happenings,
    latency_figures,
    set_change_label,
    share_description,
    share_title,
)
from perftrend.dashboard.explore.response import explore
from perftrend.dashboard.explore.shortcuts import can_save
from perftrend.dashboard.explore.state import (
    POINT_NUMBERS,
    Downsample,
    ExploreState,
    Show,
    SortKey,
    Spread,
    read,
)
from perftrend.dashboard.explore.window import TESTBED
from perftrend.dashboard.links import EXPLORE
from perftrend.dashboard.middleware.security import POLICY
from perftrend.dashboard.pages import page
from perftrend.dashboard.response_cache import cacheable
from perftrend.errors import FormulaError

router = APIRouter()

_WRONG = 400
# plotly compiles code for WebGL. Text of a page is never compiled: its scripts are files.
_WITH_PLOT = f"{POLICY}; script-src 'self' 'unsafe-eval'"
_PARAMETERS: list[dict[str, Any]] = [
    {"name": name, "in": "query", "description": description, "schema": schema}
    for name, description, schema in (
        ("testbed", "The testbed of the points; by default the one of the settings.", {"type": "string"}),
        ("scale", "0 to 5: a point covers 4^scale columns.", {"type": "integer", "minimum": 0, "maximum": 5}),
        (
            "tile",
            "128 points, counted from the oldest; by default the newest.",
            {"type": "integer", "minimum": 0},
        ),
        ("points", "The number of points that end with the tile.", {"enum": list(POINT_NUMBERS)}),
        ("q", "A query such as frame=64B&test=~^l2&driver!=avf.", {"type": "string"}),
        (
            "queries",
            "A query or an address of Skia Perf: traces without a negated parameter match.",
            {"type": "string"},
        ),
        (
            "id",
            "A trace id: normal, ! calculated or @ formula.",
            {"type": "array", "items": {"type": "string"}},
        ),
        ("formula", "A formula, as an id without its @.", {"type": "string"}),
        ("shortcut", "The id of a shortcut.", {"type": "string"}),
        ("show", "How the traces of the query are drawn.", {"enum": [each.value for each in Show]}),
        ("by", "The parameter for whose values rows are aggregated.", {"type": "string"}),
        (
            "downsample",
            "A point of a coarse scale: the average of its commits, or every 4^scale-th commit.",
            {"enum": [each.value for each in Downsample]},
        ),
        ("spread", "The band of the replicates.", {"enum": [each.value for each in Spread]}),
        ("changes", "off: without markers of changes.", {"enum": ["on", "off"]}),
        ("x", "The columns that the plot is zoomed to, LOW..HIGH.", {"type": "string"}),
        (
            "y",
            "The values that it is zoomed to, LOW..HIGH UNIT; one for each unit.",
            {"type": "array", "items": {"type": "string"}},
        ),
        ("at", "The column of the selected point.", {"type": "integer", "minimum": 0}),
        ("of", "The trace id of that point.", {"type": "string"}),
        ("since", "The column of an earlier point.", {"type": "integer", "minimum": 0}),
        ("look", "at and of, separated by a space, as a button sends them.", {"type": "string"}),
        ("drop", "A trace id that is omitted.", {"type": "string"}),
        ("find", "Offer only values that contain this text.", {"type": "string"}),
        ("rows", "all: list more than 100 lines on the page.", {"enum": ["all"]}),
        (
            "sort",
            "The order of more than 100 lines on the page; - is descending.",
            {"enum": [f"{sign}{key}" for key in SortKey for sign in ("", "-")]},
        ),
        ("format", "json, csv or html; otherwise by the Accept header.", {"enum": ["json", "csv", "html"]}),
    )
]
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/csv": {}}},
    400: {"model": Explore | Fault, "description": "The query has an error, which the response describes."},
}


@router.get(EXPLORE, response_model=Explore, responses=_RESPONSES, openapi_extra={"parameters": _PARAMETERS})
@cacheable
def explored(request: Request, site: Context, user: Viewer) -> Response:
    """Plot the selected traces over the commits of a testbed."""
    state = infer_testbed(site, read(request.url.query))
    answer = explore(site, state)
    # A CSV file cannot report errors, and a partial result would look complete.
    if request.query_params.get("format") == "csv" and not answer.mistakes:
        named = {
            "Content-Disposition": 'attachment; filename="perftrend.csv"',
            "Cache-Control": "private, no-cache",
        }
        return Response(as_csv(answer), headers=named, media_type="text/csv; charset=utf-8")
    return page(
        request,
        "explore.html",
        answer,
        title=share_title(answer),
        description=share_description(answer),
        status=_WRONG if answer.mistakes else 200,
        headers={"Content-Security-Policy": _WITH_PLOT},
        state=state,
        listed=happenings(answer),
        table=line_table(answer, state),
        dense=is_dense(answer),
        point_numbers=POINT_NUMBERS,
        labels={line.id: line.label for line in answer.lines},
        plotted=encode_plot,
        set_change_label=set_change_label,
        latencies=latency_figures(answer.point),
        functions=FUNCTIONS.values(),
        shows=list(Show),
        downsamples=list(Downsample),
        spreads=list(Spread),
        can_save=can_save(request, user),
    )


def infer_testbed(site: AppContext, state: ExploreState) -> ExploreState:
    """Return the state with the testbed that it refers to, if that is not the usual one."""
    if state.testbed:
        return state
    testbeds = site.store.tiles.testbeds()
    wanted = next((each for each in _find_testbeds(site, state) if each in testbeds), "")
    return state.but(testbed=wanted) if wanted and wanted != usual_testbed(site, testbeds) else state


def _find_testbeds(site: AppContext, state: ExploreState) -> Iterator[str]:
    """Yield the testbeds that the selection names."""
    yield from _of_query(state.query)
    for text in state.ids:
        yield from _of_text(text)
    for text in site.store.shortcuts.load(state.shortcut) or () if state.shortcut else ():
        yield from _of_text(text)


def _of_text(text: str) -> Iterator[str]:
    try:
        yield from _of_id(parse_trace_id(text))
    except FormulaError:
        # The drawing reports the error.
        return


def _of_id(identity: TraceId) -> Iterator[str]:
    if isinstance(identity, NormalId):
        yield from _of_formula(TraceNode(identity.key))
    else:
        yield from _of_formula(identity.name if isinstance(identity, CalculatedId) else identity.formula)


def _of_formula(part: object) -> Iterator[str]:
    if isinstance(part, TraceNode):
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
