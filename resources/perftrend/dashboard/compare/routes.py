"""Endpoints of ``/compare``."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response

from perftrend.analysis.query import TraceTable, parse
from perftrend.analysis.ratios import AGGREGATES, WITHOUT
from perftrend.dashboard.auth import Role, TestbedEditor, User, Viewer, require_editor
from perftrend.dashboard.compare import gerrit_post
from perftrend.dashboard.compare.comparison import PairComparison, compare_sides, select_traces
from perftrend.dashboard.compare.gerrit_post import message
from perftrend.dashboard.compare.models import (
    BY_NAME,
    By,
    ChoiceEntry,
    CompareResponse,
    MessageQuestion,
    PageQuestion,
    ParameterEntry,
    PatchEntry,
    PostedEntry,
    Preview,
    Question,
    Ratio,
    TableEntry,
    TheQuestion,
    ToPost,
    query_link_builder,
    rows_of,
)
from perftrend.dashboard.compare.patches import MOST_LISTED, patch_name
from perftrend.dashboard.compare.table import (
    csv_rows,
    describe_cell,
    explore_link,
    format_cell_ratio,
    format_left_by_right,
    format_ratio,
    is_off,
    shade,
    table_of,
)
from perftrend.dashboard.context import AppContext, Context, recent_commits
from perftrend.dashboard.csv_export import as_csv
from perftrend.dashboard.error_pages import Fault, FieldError, in_field, problems_of
from perftrend.dashboard.html_forms import FormProblem
from perftrend.dashboard.pages import body_of, done, page, parse_body, wants_json
from perftrend.dashboard.response_cache import cacheable
from perftrend.errors import ArchiveError, ServiceError, UsageError
from perftrend.store.access import ALL_TESTBEDS

router = APIRouter()

_PATH = "/compare"
_MESSAGE = f"{_PATH}/message"
_VALUES, _VALUES_OF_VERTICAL = 20, 500
_CHANGED = "the table has changed since you opened the message; this is the new message"
_WRONG: dict[int | str, dict[str, Any]] = {
    400: {
        "model": CompareResponse | Fault,
        "description": "The query has an error, which the response describes.",
    }
}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    409: {"model": Preview, "description": "The table has changed."},
    502: {"model": Preview, "description": "Gerrit rejected the request or failed."},
}


@router.get(_PATH, response_model=CompareResponse, responses=_WRONG)
@cacheable
def compare(
    request: Request, site: Context, user: Viewer, requested: Annotated[PageQuestion, Query()]
) -> Response:
    """Return a table of ratios of many traces."""
    model, problems = _build_response(site, requested, with_noise=requested.noise or wants_json(request))
    return page(
        request,
        "compare.html",
        model,
        title=_title(model),
        description=_description(model),
        status=HTTPStatus.BAD_REQUEST if problems else HTTPStatus.OK,
        problems=problems,
        requested=requested,
        sorts=(*AGGREGATES, BY_NAME),
        may_post=user.highest >= Role.EDITOR,
        gerrit=site.settings.gerrit.url,
        narrowed=query_link_builder(requested),
        row_of=rows_of(requested),
        explored=explore_link,
        ratio=format_ratio,
        shown_ratio=format_cell_ratio,
        left_by_right=format_left_by_right,
        ratios=list(Ratio),
        shade=shade,
        describe=describe_cell,
        is_off=is_off,
        recent=recent_commits(site),
        jenkins=site.settings.jenkins.url,
        headers=_cache_headers(requested),
    )


def _title(model: CompareResponse) -> str:
    return f"{model.table.left}, compared with {model.table.right}" if model.table else "Compare"


def _description(model: CompareResponse) -> str:
    """Return the numbers of a table in a line; empty if there is none."""
    if model.table is None:
        return ""
    counts = f"better in {model.table.better}, worse in {model.table.worse}"
    return f"Left is {counts} and within the noise in {model.table.within_noise} cells"


@router.get(f"{_PATH}/table.csv", response_class=Response, responses={200: {"content": {"text/csv": {}}}})
@cacheable
def table_csv(site: Context, _: Viewer, requested: TheQuestion) -> Response:
    """Return all cells of the table as CSV."""
    _require_whole(requested)
    headers = {"Content-Disposition": 'attachment; filename="compare.csv"'} | _cache_headers(requested)
    return Response(
        as_csv(csv_rows(compare_sides(site, requested), requested)),
        media_type="text/csv; charset=utf-8",
        headers=headers,
    )


@router.get(_MESSAGE, response_model=Preview)
def preview(
    request: Request,
    site: Context,
    user: TestbedEditor,
    requested: Annotated[MessageQuestion, Query()],
) -> Response:
    """Return the exact message that would be posted in Gerrit."""
    _require_whole(requested)
    comparison = compare_sides(site, requested)
    _check_editor(site, user, requested, comparison)
    text = message(comparison, ratio=requested.ratio, user=user.name, link=_link(site, requested))
    return _render_preview(request, requested, _preview(site, comparison, text, requested.change))


@router.post(_MESSAGE, response_model=PostedEntry, responses=_RESPONSES, openapi_extra=body_of(ToPost))
def post_message(
    request: Request,
    site: Context,
    user: TestbedEditor,
    requested: TheQuestion,
    wanted: Annotated[ToPost, Depends(parse_body(ToPost))],
) -> Response:
    """Post the message in Gerrit, if it still equals the preview."""
    _require_whole(requested)
    comparison = compare_sides(site, requested)
    _check_editor(site, user, requested, comparison)
    link = _link(site, requested)
    text = message(comparison, ratio=requested.ratio, user=user.name, link=link)
    again = _preview(site, comparison, text, wanted.change)
    if again.error:
        return _render_preview(request, requested, again, status=HTTPStatus.CONFLICT)
    if gerrit_post.digest_of(text) != wanted.digest:
        return _render_preview(request, requested, _with_error(again, _CHANGED), status=HTTPStatus.CONFLICT)
    try:
        posted = gerrit_post.post(site, requested, wanted, text, user=user.name, link=link)
    except ServiceError as error:
        model = _with_error(again, f"not posted: {error}")
        return _render_preview(request, requested, model, status=HTTPStatus.BAD_GATEWAY)
    notice = urlencode({"posted": posted.change})
    return done(request, f"{_PATH}?{requested.but(first=0, row='')}&{notice}", posted)


def _check_editor(site: AppContext, user: User, requested: Question, comparison: PairComparison) -> None:
    """Check that a user may post a comparison: as an editor of all testbeds that it contains."""
    if comparison.patch is not None:
        require_editor(user, [comparison.patch.test.testbed])
        return
    now = site.catalog.now()
    rows = select_traces(now, requested.q).tolist()
    require_editor(user, {now.stored[row].key.as_dict().get("testbed", ALL_TESTBEDS) for row in rows})


def _choices(found: Sequence[tuple[str, int]], limit: int, traces: int) -> list[ChoiceEntry]:
    """Return the first values of a parameter, and the number of traces without it."""
    without = traces - sum(count for _, count in found)
    chosen = [*found[:limit], *([(WITHOUT, without)] if without else [])]
    return [ChoiceEntry(value=value, count=count) for value, count in chosen]


def _build_response(
    site: AppContext, requested: Question, *, with_noise: bool
) -> tuple[CompareResponse, list[FormProblem]]:
    """Return the model of the page, and what is wrong with the form."""
    problems: list[FormProblem] = []
    table = None
    choices, traces = TraceTable([]).choices(parse("")), 0
    try:
        with in_field("q"):
            query = parse(requested.q)
        now = site.catalog.now()
        choices, traces = now.choices(query), len(now.table.rows(query))
        if requested.is_whole:
            table = _table(site, requested, with_noise=with_noise)
    except (UsageError, ArchiveError, ServiceError) as error:
        problems = problems_of(error)
    limits = {name: _VALUES_OF_VERTICAL if name == requested.vertical else _VALUES for name in choices}
    model = CompareResponse(
        **requested.model_dump(mode="json", include=set(CompareResponse.model_fields)),
        patch_of=requested.patch,
        traces=traces,
        parameters=[
            ParameterEntry(
                name=name,
                values=_choices([(each.value, each.count) for each in found], limits[name], traces),
                more=max(len(found) - limits[name], 0),
            )
            for name, found in choices.items()
        ],
        patches=_patches(site) if requested.by is By.PATCH else [],
        problem="; ".join(each.message for each in problems),
        table=table,
    )
    return model, problems


def _table(site: AppContext, requested: Question, *, with_noise: bool) -> TableEntry:
    comparison = compare_sides(site, requested)
    if not comparison.verdicts:
        raise FieldError("q", _no_pairs(comparison, requested))
    return table_of(comparison, requested, with_noise=with_noise or bool(requested.row))


def _no_pairs(comparison: PairComparison, requested: Question) -> str:
    if requested.by is By.VERTICAL:
        left, right = comparison.left_alone.count, comparison.right_alone.count
        return (
            f"{left} traces are on the left and {right} on the right, but no two of them agree in all other "
            "parameters; choose other values or another query"
        )
    if requested.by is By.PATCH:
        return "no test of this patch set matches one of these traces; choose another query"
    return "the query matches no traces"


def _patches(site: AppContext) -> list[PatchEntry]:
    return [
        PatchEntry(
            name=each.name,
            patch=patch_name(each),
            testbed=each.testbed,
            finished=each.updated,
            in_progress=not each.ended,
        )
        for each in site.store.patch_tests.newest(MOST_LISTED)
    ]


def _cache_headers(requested: Question) -> dict[str, str]:
    """Return the caching headers; results of patch sets may be on Jenkins and change independently."""
    return {"Cache-Control": "no-store" if requested.by is By.PATCH else "private, no-cache"}


def _require_whole(requested: Question) -> None:
    if not requested.is_whole:
        raise HTTPException(HTTPStatus.BAD_REQUEST, "select the left and the right side")


def _link(site: AppContext, requested: Question) -> str:
    """Return the address of the table; empty if ``dashboard.url`` is not set."""
    url = site.settings.dashboard.url
    return f"{url}{_PATH}?{requested.but(first=0, row='')}" if url else ""


def _preview(site: AppContext, comparison: PairComparison, text: str, change: int | None) -> Preview:
    patch = comparison.patch.test if comparison.patch else None
    is_its_own = patch is not None and change in {None, patch.change}
    return Preview(
        text=text,
        digest=gerrit_post.digest_of(text),
        nonce=secrets.token_hex(16),
        change=patch.change if patch and change is None else change,
        patch_set=patch.patch_set if patch and is_its_own else None,
        error=gerrit_post.why_not(site),
    )


def _with_error(model: Preview, error: str) -> Preview:
    return model.model_copy(update={"error": error})


def _render_preview(
    request: Request, requested: Question, model: Preview, *, status: int = HTTPStatus.OK
) -> Response:
    return page(
        request, "compare-message.html", model, title="Post in Gerrit", status=status, requested=requested
    )
