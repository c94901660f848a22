"""Endpoints of ``/triage``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request, Response
from starlette.responses import RedirectResponse

from perftrend.dashboard import links
from perftrend.dashboard.auth import Role, TestbedEditor, User, Viewer, require_editor
from perftrend.dashboard.context import AppContext, Context
from perftrend.dashboard.error_pages import in_field
from perftrend.dashboard.formats import percent
from perftrend.dashboard.pages import body_of, done, page, parse_body
from perftrend.dashboard.response_cache import cacheable
from perftrend.dashboard.triage.item_plot import common_range, draw
from perftrend.dashboard.triage.models import (
    LARGEST_NUMBER,
    EditedItems,
    ItemDetail,
    ItemEdits,
    ItemFilter,
    ItemVersions,
    ItemView,
    OwnerEdit,
    SnoozeEdit,
    Split,
    TriagePage,
    Undo,
)
from perftrend.dashboard.triage.views import explore_link, hashes, item_detail, item_views, sparklines
from perftrend.errors import UsageError
from perftrend.store.activity import BulkEditResult
from perftrend.store.alerts import OPEN, SNOOZED, STATUSES, Item, ItemSelection, Snooze, TriageEdit
from perftrend.store.alerts.outbox import MOST_ATTEMPTS
from perftrend.text import format_count

NEXT_RUN = "next run"
FORMS = "enter next run, 7 days, a date such as 2026-12-01, or a build such as build 61"

_LONGEST = timedelta(days=3660)
_BUILD = re.compile(r"(?:build )?#?([0-9]{1,9})")
_PERIOD = re.compile(r"([0-9]{1,4}) ?(d|days?|w|weeks?)")
_WEEK_DAYS = 7

router = APIRouter()

PER_PAGE = 50
KIND_NAMES = {
    "regression": "Regression",
    "progression": "Progression",
    "testbed": "Change of the testbed",
    "silence": "Missing data",
    "stopped": "No runs",
}
_DAY_HOURS = 48
_CONFLICT: dict[int | str, dict[str, Any]] = {
    409: {"model": EditedItems, "description": "Another user has changed it in the meantime."}
}

Identity = Annotated[int, Path(ge=1, le=LARGEST_NUMBER, description="id of an item")]
Column = Annotated[int | None, Query(ge=0, lt=10**9, description="column of the point to select")]
TheEdits = Annotated[ItemEdits, Depends(parse_body(ItemEdits))]
TheSnooze = Annotated[SnoozeEdit, Depends(parse_body(SnoozeEdit))]
TheOwner = Annotated[OwnerEdit, Depends(parse_body(OwnerEdit))]
TheMerge = Annotated[ItemVersions, Depends(parse_body(ItemVersions))]
TheSplit = Annotated[Split, Depends(parse_body(Split))]
TheUndo = Annotated[Undo, Depends(parse_body(Undo))]


def parse_snooze(site: AppContext, testbed: str, text: str, now: datetime) -> Snooze:
    """Return when an item of a testbed is new again; an empty text is the next run.

    A build is one of the job of the newest nightly run.

    :raises UsageError: if the text has no such form, or the moment or the run is in the past.
    """
    entered = " ".join(text.lower().split())
    if entered in {"", NEXT_RUN}:
        job, newest = _newest_build(site, testbed)
        return Snooze(job=job, build=newest + 1)
    if build := _BUILD.fullmatch(entered):
        job, newest = _newest_build(site, testbed)
        if int(build[1]) <= newest:
            raise UsageError(
                f"until: {testbed} has measured build {newest} of {job} already; enter a greater number"
            )
        return Snooze(job=job, build=int(build[1]))
    until = _moment(entered, now)
    if until is None:
        raise UsageError(f"until: {FORMS}")
    if not now < until <= now + _LONGEST:
        raise UsageError(f"until: {until:%Y-%m-%d} is not within the next ten years; enter a later date")
    return Snooze(until=until)


def _moment(entered: str, now: datetime) -> datetime | None:
    if period := _PERIOD.fullmatch(entered):
        return now + timedelta(days=int(period[1]) * (_WEEK_DAYS if period[2].startswith("w") else 1))
    try:
        moment = datetime.fromisoformat(entered.upper())
    except ValueError:
        return None
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError:
        return None


def _newest_build(site: AppContext, testbed: str) -> tuple[str, int]:
    found = site.store.alerts.newest_build(testbed)
    if found is None:
        raise UsageError(f"until: {testbed} has no nightly run yet; enter a date")
    return found


@router.get("/triage", response_model=TriagePage)
@cacheable
def triage(request: Request, site: Context, user: Viewer, wanted: Annotated[ItemFilter, Query()]) -> Response:
    """Return the items that match a filter."""
    items = site.store.alerts.items
    with in_field("query"):
        traces = hashes(site, wanted.query)
    chosen = ItemSelection(
        statuses=_statuses(wanted),
        testbed=wanted.testbed,
        owner=wanted.owner,
        traces=traces,
    )
    found, total = items.select(chosen, limit=PER_PAGE, offset=(wanted.page - 1) * PER_PAGE)
    counted = items.counts()
    counts = {
        status: sum(number for (each, _), number in counted.items() if each == status) for status in STATUSES
    }
    model = TriagePage(
        counts=counts,
        filter=wanted,
        total=total,
        pages=max(ceil(total / PER_PAGE), 1),
        items=item_views(site, found),
        undo=_undo(wanted.done),
        waiting=site.store.alerts.outbox.count_unsent(most_attempts=MOST_ATTEMPTS),
    )
    return page(
        request,
        "triage.html",
        model,
        title="Triage",
        may_edit=user.highest >= Role.EDITOR,
        sparklines={} if not found else sparklines(site, found),
        testbeds=site.store.tiles.testbeds(),
        owners=items.owners(),
        has_alerts=bool(site.store.alerts.all()),
        until=(NEXT_RUN, FORMS),
        link=_link_of(wanted),
        age=_age_at(datetime.now(UTC)),
    )


@router.post("/triage", response_model=EditedItems, responses=_CONFLICT, openapi_extra=body_of(ItemEdits))
def edit_items(request: Request, site: Context, user: TestbedEditor, body: TheEdits) -> Response:
    """Edit items: all of them, or none if one was changed meanwhile."""
    _check_editor(site, user, body.items)
    edits = [TriageEdit(item, version, body.status, body.message) for item, version in body.items.items()]
    outcome = site.store.alerts.items.triage(edits, user=user.name)
    wanted = {"status": body.status} | ({} if body.message is None else {"message": body.message})
    return _answer(request, site, outcome, body.back, wanted)


@router.post(
    "/triage/snooze", response_model=EditedItems, responses=_CONFLICT, openapi_extra=body_of(SnoozeEdit)
)
def snooze(request: Request, site: Context, user: TestbedEditor, body: TheSnooze) -> Response:
    """Hide items until a date or a run, after which they are new again."""
    _check_editor(site, user, body.items)
    items, now = site.store.alerts.items, datetime.now(UTC)
    testbed_of = {item.identity: item.testbed for item in items.of(body.items)}
    with in_field("until"):
        until = {each: parse_snooze(site, each, body.until, now) for each in sorted({*testbed_of.values()})}
    edits = [
        # Items that do not exist are reported by the edit itself.
        TriageEdit(item, version, SNOOZED, body.message, snooze=until.get(testbed_of.get(item, "")))
        for item, version in body.items.items()
    ]
    outcome = items.triage(edits, user=user.name)
    wanted = {"until": body.until} | ({} if body.message is None else {"message": body.message})
    return _answer(request, site, outcome, body.back, wanted)


@router.post(
    "/triage/assign", response_model=EditedItems, responses=_CONFLICT, openapi_extra=body_of(OwnerEdit)
)
def assign(request: Request, site: Context, user: TestbedEditor, body: TheOwner) -> Response:
    """Set the owner of items."""
    _check_editor(site, user, body.items)
    edits = [TriageEdit(item, version, owner=body.owner) for item, version in body.items.items()]
    outcome = site.store.alerts.items.triage(edits, user=user.name)
    return _answer(request, site, outcome, body.back, {"owner": body.owner})


@router.post(
    "/triage/merge", response_model=EditedItems, responses=_CONFLICT, openapi_extra=body_of(ItemVersions)
)
def merge(request: Request, site: Context, user: TestbedEditor, body: TheMerge) -> Response:
    """Merge items of one testbed into the oldest of them; undo separates them."""
    _check_editor(site, user, body.items)
    outcome = site.store.alerts.items.merge(body.items, user=user.name)
    return _answer(request, site, outcome, body.back, {})


@router.post(
    "/triage/{identity}/split", response_model=EditedItems, responses=_CONFLICT, openapi_extra=body_of(Split)
)
def split(
    request: Request, site: Context, user: TestbedEditor, identity: Identity, body: TheSplit
) -> Response:
    """Split traces of an item off into a new item, the second of the response; a merge undoes it."""
    _check_editor(site, user, [identity])
    outcome = site.store.alerts.items.split(identity, body.version, body.traces, user=user.name)
    return _answer(request, site, outcome, str(outcome.now[-1].identity if outcome.now else identity), {})


@router.post("/triage/undo", response_model=EditedItems, responses=_CONFLICT, openapi_extra=body_of(Undo))
def undo(request: Request, site: Context, user: TestbedEditor, body: TheUndo) -> Response:
    """Undo the last edit of items."""
    _check_editor(site, user, body.items)
    outcome = site.store.alerts.items.undo(body.items, user=user.name)
    return _answer(request, site, outcome, body.back, {})


@router.get("/triage/mine", status_code=303, response_class=RedirectResponse)
def mine(user: Viewer) -> RedirectResponse:
    """Redirect to the open items of the user."""
    # The page itself is the same for all users, and cached.
    return RedirectResponse(of_owner(user.name), 303)


@router.get("/triage/{identity}", response_model=ItemDetail)
@cacheable
def one(request: Request, site: Context, user: Viewer, identity: Identity) -> Response:
    """Return all details of an item."""
    item = _one(site, identity)
    model = item_detail(site, item, may_edit=user.may_edit(item.testbed))
    plots = [plot for plot in (model.plot, *model.other_plots) if plot]
    low, high = common_range(plots)
    return page(
        request,
        "triage-item.html",
        model,
        title=_title(model.item),
        description=_description(model.item),
        kinds=KIND_NAMES,
        may_edit=user.may_edit(item.testbed),
        drawings={plot.testbed: draw(plot, low, high, is_small=plot is not model.plot) for plot in plots},
        owners=site.store.alerts.items.owners(),
        until=(NEXT_RUN, FORMS),
    )


@router.get("/triage/{identity}/explore", status_code=303, response_class=RedirectResponse)
def explore(site: Context, user: Viewer, identity: Identity, at: Column = None) -> RedirectResponse:
    """Redirect to the plot of exactly the traces of an item, around the change."""
    found = explore_link(site, _one(site, identity), at)
    if not found.ids:
        raise HTTPException(404, f"item {identity} has no traces that are still in the store")
    if found.url:
        return RedirectResponse(found.url, 303)
    shortcut = site.store.shortcuts.save(links.fit_shortcut(found.ids), user=user.name)
    return RedirectResponse(found.by_shortcut(shortcut), 303)


def _title(item: ItemView) -> str:
    """Return the title of an item: ``Regression -3.1 % on 2n-clx (item 7)``."""
    size = "" if item.size is None else f" {percent(item.size)}"
    return f"{KIND_NAMES[item.kind]}{size} on {item.testbed} (item {item.id})"


def _description(item: ItemView) -> str:
    """Return what an item is about, in a line."""
    traces = f"{format_count(item.traces, 'trace')}{', ' if item.largest else ''}{item.largest}"
    commits = (
        f"after {item.range.last_good[:12] or 'an unknown commit'}, up to {item.range.first_changed[:12]}"
    )
    return f"{traces if item.traces else 'No traces'}; {commits}; {item.status}"


def _check_editor(site: AppContext, user: User, items: Iterable[int]) -> None:
    """Check that a user may change items; those that do not exist are reported later."""
    require_editor(user, site.store.alerts.items.testbeds(items))


def _one(site: AppContext, identity: int) -> Item:
    item = site.store.alerts.items.one(identity)
    if item is None:
        raise HTTPException(404, f"item {identity} does not exist")
    return item


def _answer(
    request: Request, site: AppContext, outcome: BulkEditResult[Item], back: str, wanted: dict[str, str]
) -> Response:
    """Return the response to an edit: the items as they are now, or the conflicting edits of other users."""
    if outcome.gone:
        raise HTTPException(404, f"nothing was changed: unknown item: {', '.join(map(str, outcome.gone))}")
    if outcome.is_done:
        model = EditedItems(done=True, items=item_views(site, outcome.now))
        versions = ",".join(f"{item.identity}.{item.version}" for item in outcome.now)
        return done(request, _back(back, versions), model)
    model = EditedItems(
        done=False,
        error=f"nothing was changed: {'; '.join(map(_describe_edit, outcome.refused))}",
        items=item_views(site, outcome.refused),
        wanted=wanted,
    )
    return page(
        request,
        "triage-conflict.html",
        model,
        title="Someone else changed this",
        status=409,
        back=_back(back),
        shown=model.items,
        action=request.url.path,
    )


def _describe_edit(item: Item) -> str:
    user = item.changed_by or "an evaluation"
    when = f"{item.changed:%Y-%m-%d %H:%M:%S} UTC"
    if item.status == item.former.status and item.owner != item.former.owner:
        return f"{user} assigned item {item.identity} to {item.owner or 'nobody'} at {when}"
    return f"{user} set item {item.identity} to {item.status} at {when}"


def _back(text: str, changed: str = "") -> str:
    """Return the address that a form returns to; always a page of triage, whatever the form contains."""
    path, _, query = text.partition("?")
    if path.isdecimal() and len(path) < 11:  # noqa: PLR2004 - digits of the largest number
        return f"/triage/{path}"
    fields = [(name, value) for name, value in parse_qsl(query) if name in ItemFilter.model_fields]
    fields = [(name, value) for name, value in fields if name != "done"]
    fields += [("done", changed)] if changed else []
    return f"/triage?{urlencode(fields)}" if fields else "/triage"


def _statuses(wanted: ItemFilter) -> Sequence[str]:
    if wanted.status == "open":
        return OPEN
    return () if wanted.status == "all" else (wanted.status,)


def of_owner(owner: str) -> str:
    """Return the address of the open items of an owner."""
    return f"/triage?{urlencode({'status': 'open', 'owner': owner})}"


def _undo(text: str) -> dict[int, int]:
    pairs = (each.split(".") for each in text.split(",")) if text else ()
    return {int(item): int(version) for item, version in pairs}


def _age_at(now: datetime) -> Callable[[datetime], str]:
    """Return a function that formats the age of a moment: ``5 h``, ``3 d``."""

    def age(moment: datetime) -> str:
        hours = max(now - moment, timedelta()) // timedelta(hours=1)
        return f"{hours} h" if hours < _DAY_HOURS else f"{hours // 24} d"

    return age


def _link_of(wanted: ItemFilter) -> Callable[..., str]:
    """Return a function that builds the address of the page with another filter."""
    defaults = ItemFilter()

    def link(**changed: object) -> str:
        fields = wanted.model_dump(exclude={"done", "page"}) | changed
        chosen = {name: value for name, value in fields.items() if value != getattr(defaults, name)}
        return f"/triage?{urlencode(chosen)}" if chosen else "/triage"

    return link
