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
from perftrend.dashboard.compare import cells, posting
from perftrend.dashboard.compare.comparing import Comparison, compared
from perftrend.dashboard.compare.exports import as_csv
from perftrend.dashboard.compare.links import explored, narrowing, rows_of
from perftrend.dashboard.compare.message import message
from perftrend.dashboard.compare.model import (
    ChoiceEntry,
    Compared,
    ParameterEntry,
    PatchEntry,
    PostedEntry,
    Preview,
    TableEntry,
    ToPost,
)
from perftrend.dashboard.compare.patches import MOST_LISTED, patch_name
from perftrend.dashboard.compare.question import (
    BY_NAME,
    By,
    MessageQuestion,
    PageQuestion,
    Question,
    Ratio,
    TheQuestion,
)
from perftrend.dashboard.compare.table import table_of
from perftrend.dashboard.faults import Fault
from perftrend.dashboard.kept import kept
from perftrend.dashboard.pages import done, page, wants_json
from perftrend.dashboard.recent import recent_commits
from perftrend.dashboard.sent import body_of, sent
from perftrend.dashboard.site import Site, TheSite
from perftrend.dashboard.users import Editor, Role, Viewer
from perftrend.errors import ArchiveError, ServiceError, UsageError

router = APIRouter()

_PATH = "/compare"
_MESSAGE = f"{_PATH}/message"
_VALUES, _VALUES_OF_VERTICAL = 20, 500
_CHANGED = "the table has changed since you opened the message; this is the new message"
_WRONG: dict[int | str, dict[str, Any]] = {
    400: {"model": Compared | Fault, "description": "The query has an error, which the response describes."}
}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    409: {"model": Preview, "description": "The table has changed."},
    502: {"model": Preview, "description": "Gerrit rejected the request or failed."},
}


@router.get(_PATH, response_model=Compared, responses=_WRONG)
@kept
def compare(
    request: Request, site: TheSite, user: Viewer, asked: Annotated[PageQuestion, Query()]
) -> Response:
    """Return a table of ratios of many traces."""
    told = _answered(site, asked)
    return page(
        request,
        "compare.html",
        told,
        title="Compare",
        status=_status(request, told),
        asked=asked,
        sorts=(*AGGREGATES, BY_NAME),
        may_post=user.role >= Role.EDITOR,
        gerrit=site.settings.gerrit.url,
        narrowed=narrowing(asked),
        row_of=rows_of(asked),
        explored=explored,
        ratio=cells.ratio,
        shown_ratio=cells.shown_ratio,
        ratios=list(Ratio),
        shade=cells.shade,
        told=cells.told,
        is_off=cells.is_off,
        recent=recent_commits(site),
        jenkins=site.settings.jenkins.url,
        headers=_caching(asked),
    )


@router.get(f"{_PATH}/table.csv", response_class=Response, responses={200: {"content": {"text/csv": {}}}})
@kept
def table_csv(site: TheSite, _: Viewer, asked: TheQuestion) -> Response:
    """Return all cells of the table as CSV."""
    _require_whole(asked)
    headers = {"Content-Disposition": 'attachment; filename="compare.csv"'} | _caching(asked)
    return Response(
        as_csv(compared(site, asked), asked), media_type="text/csv; charset=utf-8", headers=headers
    )


@router.get(_MESSAGE, response_model=Preview)
def preview(
    request: Request,
    site: TheSite,
    user: Editor,
    asked: Annotated[MessageQuestion, Query()],
) -> Response:
    """Return the exact message that would be posted in Gerrit."""
    _require_whole(asked)
    comparison = compared(site, asked)
    text = message(comparison, ratio=asked.ratio, user=user.name, link=_link(site, asked))
    return _shown(request, asked, _preview(site, comparison, text, asked.change))


@router.post(_MESSAGE, response_model=PostedEntry, responses=_RESPONSES, openapi_extra=body_of(ToPost))
def post_message(
    request: Request,
    site: TheSite,
    user: Editor,
    asked: TheQuestion,
    wanted: Annotated[ToPost, Depends(sent(ToPost))],
) -> Response:
    """Post the message in Gerrit, if it still equals the preview."""
    _require_whole(asked)
    comparison = compared(site, asked)
    link = _link(site, asked)
    text = message(comparison, ratio=asked.ratio, user=user.name, link=link)
    again = _preview(site, comparison, text, wanted.change)
    if again.error:
        return _shown(request, asked, again, status=HTTPStatus.CONFLICT)
    if posting.digest_of(text) != wanted.digest:
        return _shown(request, asked, _with_error(again, _CHANGED), status=HTTPStatus.CONFLICT)
    try:
        posted = posting.post(site, asked, wanted, text, user=user.name, link=link)
    except ServiceError as error:
        told = _with_error(again, f"not posted: {error}")
        return _shown(request, asked, told, status=HTTPStatus.BAD_GATEWAY)
    notice = urlencode({"posted": posted.change})
    return done(request, f"{_PATH}?{asked.but(first=0, row='')}&{notice}", posted)


def _choices(found: Sequence[tuple[str, int]], limit: int, traces: int) -> list[ChoiceEntry]:
    """Return the first values of a parameter, and the number of traces without it."""
    without = traces - sum(count for _, count in found)
    chosen = [*found[:limit], *([(WITHOUT, without)] if without else [])]
    return [ChoiceEntry(value=value, count=count) for value, count in chosen]


def _answered(site: Site, asked: Question) -> Compared:
    """Return the model of the page; an error is a problem that is shown next to the form."""
    problem, table = "", None
    choices, traces = TraceTable([]).choices(parse("")), 0
    try:
        query = parse(asked.q)
        now = site.catalog.now()
        choices, traces = now.choices(query), len(now.table.rows(query))
        if asked.is_whole:
            table = _table(site, asked)
    except (UsageError, ArchiveError, ServiceError) as error:
        problem = str(error)
    limits = {name: _VALUES_OF_VERTICAL if name == asked.vertical else _VALUES for name in choices}
    return Compared(
        **asked.model_dump(mode="json", include=set(Compared.model_fields)),
        patch_of=asked.patch,
        traces=traces,
        parameters=[
            ParameterEntry(
                name=name,
                values=_choices([(each.value, each.count) for each in found], limits[name], traces),
                more=max(len(found) - limits[name], 0),
            )
            for name, found in choices.items()
        ],
        patches=_patches(site) if asked.by is By.PATCH else [],
        problem=problem,
        table=table,
    )


def _table(site: Site, asked: Question) -> TableEntry:
    comparison = compared(site, asked)
    if not comparison.verdicts:
        raise UsageError(_no_pairs(comparison, asked))
    return table_of(comparison, asked)


def _no_pairs(comparison: Comparison, asked: Question) -> str:
    if asked.by is By.VERTICAL:
        left, right = comparison.left_alone.count, comparison.right_alone.count
        return (
            f"{left} traces are on the left and {right} on the right, but no two of them agree in all other "
            "parameters; choose other values or another query"
        )
    if asked.by is By.PATCH:
        return "no test of this patch set matches one of these traces; choose another query"
    return "the query matches no traces"


def _patches(site: Site) -> list[PatchEntry]:
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


def _status(request: Request, told: Compared) -> int:
    """Return an error status only to programs; the page shows the problem next to the form."""
    return HTTPStatus.BAD_REQUEST if told.problem and wants_json(request) else HTTPStatus.OK


def _caching(asked: Question) -> dict[str, str]:
    """Return the caching headers; results of patch sets may be on Jenkins and change independently."""
    return {"Cache-Control": "no-store" if asked.by is By.PATCH else "private, no-cache"}


def _require_whole(asked: Question) -> None:
    if not asked.is_whole:
        raise HTTPException(HTTPStatus.BAD_REQUEST, "select the left and the right side")


def _link(site: Site, asked: Question) -> str:
    """Return the address of the table; empty if ``dashboard.url`` is not set."""
    url = site.settings.dashboard.url
    return f"{url}{_PATH}?{asked.but(first=0, row='')}" if url else ""


def _preview(site: Site, comparison: Comparison, text: str, change: int | None) -> Preview:
    patch = comparison.patch.test if comparison.patch else None
    is_its_own = patch is not None and change in {None, patch.change}
    return Preview(
        text=text,
        digest=posting.digest_of(text),
        nonce=secrets.token_hex(16),
        change=patch.change if patch and change is None else change,
        patch_set=patch.patch_set if patch and is_its_own else None,
        error=posting.why_not(site),
    )


def _with_error(told: Preview, error: str) -> Preview:
    return told.model_copy(update={"error": error})


def _shown(request: Request, asked: Question, told: Preview, *, status: int = HTTPStatus.OK) -> Response:
    return page(request, "compare-message.html", told, title="Post in Gerrit", status=status, asked=asked)
