"""Endpoints of Explore: ``/``, ``/shortcuts``, ``/short`` and ``/s/…``."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from starlette.responses import RedirectResponse

from perftrend.analysis.formula import FUNCTIONS
from perftrend.dashboard.explore import keeping
from perftrend.dashboard.explore.answering import explore
from perftrend.dashboard.explore.csvs import as_csv
from perftrend.dashboard.explore.happenings import happenings
from perftrend.dashboard.explore.model import Explore, Kept, ShortAsked, ShortcutAsked
from perftrend.dashboard.explore.placing import placed
from perftrend.dashboard.explore.plotting import plotted
from perftrend.dashboard.explore.state import Downsample, Show, Spread, read
from perftrend.dashboard.faults import Fault
from perftrend.dashboard.front.headers import POLICY
from perftrend.dashboard.kept import kept
from perftrend.dashboard.pages import done, page
from perftrend.dashboard.sent import body_of, sent
from perftrend.dashboard.site import TheSite
from perftrend.dashboard.users import Viewer

router = APIRouter()

_WRONG = 400
# plotly compiles code for WebGL. Text of a page is never compiled: its scripts are files.
_WITH_PLOT = f"{POLICY}; script-src 'self' 'unsafe-eval'"
_PARAMETERS: list[dict[str, Any]] = [
    {"name": name, "in": "query", "description": told, "schema": schema}
    for name, told, schema in (
        ("testbed", "The testbed of the points; by default the one of the settings.", {"type": "string"}),
        ("scale", "0 to 5: a point covers 4^scale columns.", {"type": "integer", "minimum": 0, "maximum": 5}),
        (
            "tile",
            "128 points, counted from the oldest; by default the newest.",
            {"type": "integer", "minimum": 0},
        ),
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
        ("format", "json, csv or html; otherwise by the Accept header.", {"enum": ["json", "csv", "html"]}),
    )
]
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/csv": {}}},
    400: {"model": Explore | Fault, "description": "The query has an error, which the response describes."},
}


@router.get("/", response_model=Explore, responses=_RESPONSES, openapi_extra={"parameters": _PARAMETERS})
@kept
def explored(request: Request, site: TheSite, user: Viewer) -> Response:
    """Plot the selected traces over the commits of a testbed."""
    state = placed(site, read(request.url.query))
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
        title="Explore",
        status=_WRONG if answer.mistakes else 200,
        headers={"Content-Security-Policy": _WITH_PLOT},
        state=state,
        listed=happenings(answer),
        labels={line.id: line.label for line in answer.lines},
        plotted=plotted,
        functions=FUNCTIONS.values(),
        shows=list(Show),
        downsamples=list(Downsample),
        spreads=list(Spread),
        can_keep=keeping.may_keep(request, user),
    )


@router.post("/shortcuts", response_model=Kept, openapi_extra=body_of(ShortcutAsked))
def keep_shortcut(
    request: Request,
    site: TheSite,
    user: Viewer,
    asked: Annotated[ShortcutAsked, Depends(sent(ShortcutAsked))],
) -> Response:
    """Save traces and formulas as a shortcut; the same content has the same id."""
    keeping.check_may_keep(request, user)
    kept = keeping.shortcut(site.store, asked.ids, user)
    return done(request, "/", kept, shortcut=kept.id)


@router.post("/short", response_model=Kept, openapi_extra=body_of(ShortAsked))
def keep_short(
    request: Request, site: TheSite, user: Viewer, asked: Annotated[ShortAsked, Depends(sent(ShortAsked))]
) -> Response:
    """Create a short address of a page of Explore; the same page has the same short address."""
    keeping.check_may_keep(request, user)
    kept = keeping.short_url(site.store, asked.url, user)
    return done(request, kept.url, kept)


@router.get("/s/{key}", response_class=RedirectResponse, status_code=302)
def short(site: TheSite, _: Viewer, key: str) -> Response:
    """Redirect to the page of a short address."""
    query = site.store.short_urls.query(key) if keeping.is_key(key) else None
    if query is None:
        raise HTTPException(404, "this short address does not exist")
    return RedirectResponse(f"/?{query}", 302)
