"""Endpoints of Explore: the page, its list of lines, the CSV export and the saved selections.

The testbed that an address defaults to is inferred from its selection. A long list of lines is sorted and cut
here, so that the page remains quick. ``/shortcuts`` are saved selections, ``/short`` and ``/s/…`` short
addresses.

The CSV export has a row for each point and a column for each line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC
from http import HTTPStatus
from operator import attrgetter
from typing import Annotated, Any
from urllib.parse import urlsplit

import numpy as np
from fastapi import APIRouter, Depends, HTTPException, Request, Response
from starlette.responses import RedirectResponse

from perftrend.analysis.formula import (
    FUNCTIONS,
    CalculatedId,
    Call,
    NormalId,
    Query,
    Text,
    TraceId,
    TraceNode,
    parse_stored_ids,
    parse_trace_id,
)
from perftrend.analysis.formula.query import parse_filter
from perftrend.dashboard.auth import User, Viewer, authenticator_of
from perftrend.dashboard.context import AppContext, Context, usual_testbed
from perftrend.dashboard.csv_export import as_cell, as_csv
from perftrend.dashboard.error_pages import Fault
from perftrend.dashboard.explore.models import (
    Explore,
    Number,
    PlotLine,
    SavedSelection,
    ShortAddressRequest,
    ShortcutRequest,
)
from perftrend.dashboard.explore.plot_data import encode_plot, is_dense
from perftrend.dashboard.explore.presenter import (
    happenings,
    latency_figures,
    set_change_label,
    share_description,
    share_title,
)
from perftrend.dashboard.explore.response import explore
from perftrend.dashboard.explore.state import (
    POINT_NUMBERS,
    Downsample,
    ExploreState,
    Show,
    Sort,
    SortKey,
    Spread,
    read,
)
from perftrend.dashboard.explore.window import TESTBED
from perftrend.dashboard.links import EXPLORE
from perftrend.dashboard.middleware.rate_limit import is_loopback
from perftrend.dashboard.middleware.security import POLICY
from perftrend.dashboard.pages import body_of, done, page, parse_body
from perftrend.dashboard.response_cache import cacheable
from perftrend.errors import FormulaError, UsageError
from perftrend.store import Store
from perftrend.text import natural_key

MOST_ROWS = 100
"""Maximum number of lines that are listed unless all are requested."""

router = APIRouter()

_KEY = re.compile(r"[A-Za-z0-9_-]{12}")

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


def csv_rows(answer: Explore) -> Iterator[list[object]]:
    """Yield the rows of the plot as CSV; values are in the units of the store, and empty if missing."""
    yield ["column", "commit", "started", *(as_cell(_title(line.id, line.unit)) for line in answer.lines)]
    columns = np.array([line.values for line in answer.lines]).T.tolist() or [[] for _ in answer.points]
    for place, point in enumerate(answer.points):
        started = point.started.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        values = ["" if value != value else value for value in columns[place]]  # noqa: PLR0124 - NaN
        yield [point.column, as_cell(point.commit), started, *values]


def _title(identity: str, unit: str) -> str:
    return f"{identity} {unit}".rstrip()


@dataclass(frozen=True, slots=True)
class ColumnHeading:
    """The heading of a column."""

    words: str
    url: str = ""
    """The page sorted by this column; empty: the browser sorts."""
    order: str = ""
    """``ascending``, ``descending``, or empty: the list is not sorted by this column."""


@dataclass(frozen=True, slots=True)
class LineTable:
    """The list of lines."""

    headings: list[ColumnHeading]
    rows: list[tuple[int, PlotLine]]
    """Lines with their numbers, which select their colours."""
    whole: str = ""
    """The page with all lines; empty: all are listed."""


def line_table(answer: Explore, state: ExploreState) -> LineTable:
    """Return the list of the lines of a response."""
    rows = list(enumerate(answer.lines))
    if len(rows) <= MOST_ROWS:
        return LineTable([ColumnHeading(key.words) for key in SortKey], rows)
    headings = [
        ColumnHeading(
            key.words,
            state.but(sort=state.sort.then(key)).url,
            ("descending" if state.sort.descending else "ascending") * (key is state.sort.key),
        )
        for key in SortKey
    ]
    rows = _sort(rows, state.sort)
    if state.all_rows:
        return LineTable(headings, rows)
    looked = answer.point.trace if answer.point else None
    cut = [row for row in rows[MOST_ROWS:] if row[1].id == looked] + rows[:MOST_ROWS]
    return LineTable(headings, cut, state.but(all_rows=True).url)


def _distance(line: PlotLine) -> Number:
    return None if line.change is None else abs(line.change)


_NUMBERS: Mapping[SortKey, Callable[[PlotLine], Number]] = {
    SortKey.NEWEST: attrgetter("newest"),
    SortKey.MEAN: attrgetter("mean"),
    SortKey.CHANGE: _distance,
    SortKey.CHANGES: attrgetter("changes"),
}


def _sort(rows: list[tuple[int, PlotLine]], order: Sort) -> list[tuple[int, PlotLine]]:
    """Sort rows; those without a value are the last."""
    if order.key is SortKey.LINE:
        return sorted(rows, key=lambda row: natural_key(row[1].label), reverse=order.descending)
    number = _NUMBERS[order.key]
    known = [row for row in rows if number(row[1]) is not None]
    known.sort(key=lambda row: number(row[1]) or 0.0, reverse=order.descending)
    return known + [row for row in rows if number(row[1]) is None]


@router.post("/shortcuts", response_model=SavedSelection, openapi_extra=body_of(ShortcutRequest))
def save_shortcut(
    request: Request,
    site: Context,
    user: Viewer,
    wanted: Annotated[ShortcutRequest, Depends(parse_body(ShortcutRequest))],
) -> Response:
    """Save traces and formulas as a shortcut; the same content has the same id."""
    check_can_save(request, user)
    saved = store_shortcut(site.store, wanted.ids, user)
    return done(request, EXPLORE, saved, shortcut=saved.id)


@router.post("/short", response_model=SavedSelection, openapi_extra=body_of(ShortAddressRequest))
def save_short_address(
    request: Request,
    site: Context,
    user: Viewer,
    wanted: Annotated[ShortAddressRequest, Depends(parse_body(ShortAddressRequest))],
) -> Response:
    """Create a short address of a page of Explore; the same page has the same short address."""
    check_can_save(request, user)
    saved = store_short_url(site.store, wanted.url, user)
    return done(request, saved.url, saved)


@router.get("/s/{key}", response_class=RedirectResponse, status_code=302)
def short(site: Context, _: Viewer, key: str) -> Response:
    """Redirect to the page of a short address."""
    query = site.store.short_urls.query(key) if is_key(key) else None
    if query is None:
        raise HTTPException(404, "this short address does not exist")
    return RedirectResponse(f"{EXPLORE}?{query}", 302)


def can_save(request: Request, user: User) -> bool:
    """Return whether a user may save selections: if signed in, or if the request is from this machine."""
    client: str = request.scope.get("perftrend.client", "")
    return user.signed_in or (is_loopback(client) and authenticator_of(request).csrf.is_from_here(request))


def check_can_save(request: Request, user: User) -> None:
    """Check that a user may save selections.

    :raises HTTPException: with status 403 otherwise.
    """
    if not can_save(request, user):
        raise HTTPException(HTTPStatus.FORBIDDEN, "sign in to save shortcuts and short addresses")


def is_key(text: str) -> bool:
    """Return whether a text can be the key of a short address."""
    return _KEY.fullmatch(text) is not None


def store_shortcut(store: Store, ids: list[str], user: User) -> SavedSelection:
    """Save trace ids as a shortcut.

    :raises FormulaError: if one of them is not valid.
    :raises UsageError: if no id is left to save, or there are too many.
    """
    identity = store.shortcuts.save([str(each) for each in parse_stored_ids(ids)], user=user.name)
    return SavedSelection(id=identity, url=ExploreState(shortcut=identity).url)


def store_short_url(store: Store, url: str, user: User) -> SavedSelection:
    """Save an address of the page as a short address; unknown parameters are discarded.

    :param url: an address of the page, or its query string.
    :raises UsageError: if it is the address of another page, or not valid.
    """
    try:
        parts = urlsplit(url) if url.startswith(("/", "http://", "https://")) else None
    except ValueError:
        raise UsageError("address: not valid; enter the part after the ?") from None
    if parts and parts.path not in {EXPLORE, "/"}:
        raise UsageError("address: only Explore pages have short addresses; enter the part after the ?")
    state = read(parts.query if parts else url.removeprefix("?"))
    if state.problems:
        raise UsageError(f"address: {state.problems[0].reason}")
    key = store.short_urls.save(state.encoded, user=user.name)
    return SavedSelection(id=key, url=f"/s/{key}")


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
        return Response(as_csv(csv_rows(answer)), headers=named, media_type="text/csv; charset=utf-8")
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
