"""Endpoints of ``/alerts``."""

from __future__ import annotations

from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request, Response

from perftrend.analysis.formula import Query as TraceQuery
from perftrend.analysis.formula import Term
from perftrend.analysis.query import parse
from perftrend.dashboard.auth import Role, TestbedEditor, User, Viewer, require_editor
from perftrend.dashboard.context import AppContext, Context
from perftrend.dashboard.form_errors import FieldError, in_field
from perftrend.dashboard.pages import body_of, done, page, parse_body
from perftrend.dashboard.response_cache import cacheable
from perftrend.dashboard.triage.alert_models import (
    AlertDetail,
    AlertList,
    AlertRules,
    AlertView,
    DeletedAlert,
    DryRun,
    DryRunRequest,
    EditedAlert,
    OverrideEdit,
    OverrideView,
)
from perftrend.dashboard.triage.dry_runs import DryRuns
from perftrend.dashboard.triage.models import LARGEST_NUMBER
from perftrend.dashboard.triage.notifications import delivery_problem, name_of
from perftrend.errors import UsageError
from perftrend.store.activity import EditResult
from perftrend.store.alerts import Alert, Override, Rules
from perftrend.store.grants import ALL_TESTBEDS
from perftrend.store.tiles import StoredTrace

router = APIRouter()

_CONFLICT: dict[int | str, dict[str, Any]] = {
    409: {"model": AlertDetail, "description": "Another user has changed it in the meantime."}
}

Identity = Annotated[int, Path(ge=1, le=LARGEST_NUMBER, description="id of an alert")]


def dry_runs_of(request: Request) -> DryRuns:
    """Return the dry runs of this process."""
    state = request.app.state
    if not hasattr(state, "dry_runs"):
        state.dry_runs = DryRuns()
    return cast("DryRuns", state.dry_runs)


TheDryRuns = Annotated[DryRuns, Depends(dry_runs_of)]
TheRules = Annotated[AlertRules, Depends(parse_body(AlertRules))]
TheEdit = Annotated[EditedAlert, Depends(parse_body(EditedAlert))]
TheDeletion = Annotated[DeletedAlert, Depends(parse_body(DeletedAlert))]
TheOverride = Annotated[OverrideEdit, Depends(parse_body(OverrideEdit))]
TheDryRun = Annotated[DryRunRequest, Depends(parse_body(DryRunRequest))]


@router.get("/alerts", response_model=AlertList)
@cacheable
def alerts(request: Request, site: Context, user: Viewer) -> Response:
    """Return all alerts."""
    model = AlertList(alerts=[_view(site, alert, user) for alert in site.store.alerts.all()])
    return page(
        request, "alerts.html", model, title="Alerts", may_create=user.highest >= Role.EDITOR, rules=_empty()
    )


@router.post("/alerts", status_code=201, response_model=AlertView, openapi_extra=body_of(AlertRules))
def make(request: Request, site: Context, user: TestbedEditor, rules: TheRules) -> Response:
    """Create an alert."""
    require_editor(user, _scope(rules.rules))
    made = site.store.alerts.add(rules.rules, user=user.name)
    return done(request, f"/alerts/{made.identity}", _view(site, made, user), status=201)


@router.get("/alerts/{identity}", response_model=AlertDetail)
def alert(
    request: Request,
    site: Context,
    user: Viewer,
    identity: Identity,
    trace: Annotated[
        str,
        Query(pattern="^([0-9a-f]{32})?$", description="hash of the key of the trace to override"),
    ] = "",
) -> Response:
    """Return one alert with its overrides; for editors, the page contains the edit form."""
    found = _one(site, identity)
    testbeds = _testbeds(site, found.rules)
    return page(
        request,
        "alert.html",
        _detail(site, found, user),
        title=found.rules.name,
        may_edit=_may_edit(user, found),
        may_override=user.highest >= Role.EDITOR,
        testbeds=testbeds,
        tested=[each for each in testbeds if user.may_edit(each)],
        dry_run=dry_runs_of(request).newest(identity),
        activity=site.store.activity.newest(50, found.subject),
        trace=trace,
    )


@router.post(
    "/alerts/{identity}", response_model=AlertDetail, responses=_CONFLICT, openapi_extra=body_of(EditedAlert)
)
def edit(
    request: Request, site: Context, user: TestbedEditor, identity: Identity, rules: TheEdit
) -> Response:
    """Change an alert."""
    require_editor(user, _scope(_one(site, identity).rules) | _scope(rules.rules))
    outcome = site.store.alerts.edit(identity, rules.rules, version=rules.version, user=user.name)
    return _answer(request, site, user, outcome, identity=identity, wanted=rules)


@router.post(
    "/alerts/{identity}/delete",
    response_model=AlertDetail,
    responses=_CONFLICT,
    openapi_extra=body_of(DeletedAlert),
)
def delete(
    request: Request, site: Context, user: TestbedEditor, identity: Identity, body: TheDeletion
) -> Response:
    """Delete an alert; the items that it found remain."""
    require_editor(user, _scope(_one(site, identity).rules))
    outcome = site.store.alerts.delete(identity, version=body.version, user=user.name)
    return _answer(request, site, user, outcome, identity=identity, back="/alerts")


@router.post(
    "/alerts/{identity}/override",
    response_model=AlertDetail,
    responses=_CONFLICT,
    openapi_extra=body_of(OverrideEdit),
)
def override(
    request: Request, site: Context, user: TestbedEditor, identity: Identity, body: TheOverride
) -> Response:
    """Set other thresholds for one trace or one test, or mute it until a date."""
    traces = _overridden(site, body)
    require_editor(user, {_testbed_of(trace) for trace in traces})
    found = [body.override(identity, trace.hash, user.name) for trace in traces]
    outcome = site.store.alerts.override(*found, version=body.version, user=user.name)
    return _answer(request, site, user, outcome, identity=identity)


@router.post(
    "/alerts/{identity}/dry-run", status_code=202, response_model=DryRun, openapi_extra=body_of(DryRunRequest)
)
def begin_dry_run(  # noqa: PLR0917 - FastAPI passes each by name
    request: Request,
    site: Context,
    user: TestbedEditor,
    identity: Identity,
    runs: TheDryRuns,
    body: TheDryRun,
) -> Response:
    """Start a dry run of an alert over the newest nights; no messages are sent."""
    require_editor(user, [body.testbed])
    with in_field("testbed"):
        begun = runs.begin(site, _one(site, identity), body.testbed, nights=body.nights)
    return done(request, f"/alerts/{identity}/dry-run", begun, status=202, testbed=body.testbed)


@router.get("/alerts/{identity}/dry-run", response_model=DryRun)
def dry_run(
    request: Request,
    site: Context,
    _: Viewer,
    identity: Identity,
    runs: TheDryRuns,
    testbed: Annotated[str, Query(min_length=1, max_length=255)],
) -> Response:
    """Return the progress and the findings of a dry run."""
    alert = _one(site, identity)
    found = runs.find(identity, testbed)
    if found is None:
        raise HTTPException(404, f"alert {identity} has no dry run on {testbed}; start one on its page")
    headers = {"Refresh": "2"} if found.state in {"waiting", "running"} else {}
    return page(
        request, "alert-dry-run.html", found, title=f"Dry run of {alert.rules.name}", name=alert.rules.name,
        headers=headers,
    )  # fmt: skip


def _answer(
    request: Request,
    site: AppContext,
    user: User,
    outcome: EditResult[Alert],
    *,
    identity: int,
    wanted: AlertRules | None = None,
    back: str = "",
) -> Response:
    """Return the response to an edit: the alert as it is now, or the conflicting edit of another user."""
    now = outcome.now
    if now is None:
        raise HTTPException(404, f"nothing was changed: alert {identity} does not exist, or was deleted")
    if outcome.is_done:
        return done(request, back or f"/alerts/{identity}", _detail(site, now, user))
    last_edit = f"{now.changed_by} changed it at {now.changed:%Y-%m-%d %H:%M:%S} UTC"
    model = _detail(site, now, user).model_copy(
        update={"error": f"nothing was changed: {last_edit}, after you opened it"}
    )
    return page(
        request, "alert-conflict.html", model, title="Someone else changed this", status=409,
        wanted=wanted.model_dump() if wanted else None,
    )  # fmt: skip


def _scope(rules: Rules) -> frozenset[str]:
    """Return the testbeds that an alert can watch, also in the future; an empty name is all testbeds."""
    try:
        return parse(rules.query).values_of("testbed") or frozenset({ALL_TESTBEDS})
    except UsageError:
        return frozenset({ALL_TESTBEDS})


def _may_edit(user: User, alert: Alert) -> bool:
    return all(map(user.may_edit, _scope(alert.rules)))


def _testbed_of(trace: StoredTrace) -> str:
    return trace.key.as_dict().get("testbed", ALL_TESTBEDS)


def _overridden(site: AppContext, body: OverrideEdit) -> list[StoredTrace]:
    """Return the traces that an override applies to."""
    now = site.catalog.now()
    trace = now.by_hash.get(body.trace)
    if trace is None:
        message = f"the store has no trace {body.trace}; copy the hash from the page of an item"
        raise FieldError("trace", message)
    test = {name: value for name, value in trace.key.as_dict().items() if name in {"testbed", "test"}}
    if body.scope == "trace" or "test" not in test:
        return [trace]
    rows = now.table.rows(TraceQuery(tuple(Term(name, value) for name, value in test.items())))
    return [now.stored[row] for row in rows]


def _one(site: AppContext, identity: int) -> Alert:
    found = site.store.alerts.one(identity)
    if found is None:
        raise HTTPException(404, f"alert {identity} does not exist, or was deleted")
    return found


def _view(site: AppContext, alert: Alert, user: User) -> AlertView:
    try:
        traces = len(site.catalog.table().rows(parse(alert.rules.query)))
    except UsageError:
        traces = None
    problem = delivery_problem(site.settings, alert.rules.action)
    return AlertView.of(alert, traces, problem=problem, with_target=_may_edit(user, alert))


def _detail(site: AppContext, alert: Alert, user: User) -> AlertDetail:
    overrides = site.store.alerts.overrides(alert.identity)
    return AlertDetail(
        alert=_view(site, alert, user), overrides=[_override(site, each) for each in overrides]
    )


def _override(site: AppContext, override: Override) -> OverrideView:
    trace = site.catalog.now().by_hash.get(override.trace)
    return OverrideView(
        trace=override.trace,
        name=name_of(trace.key) if trace else "",
        testbed=_testbed_of(trace) if trace else ALL_TESTBEDS,
        change_percent=None if override.change is None else round(100 * override.change, 10),
        confidence_percent=None if override.confidence is None else round(100 * override.confidence, 10),
        muted_until=override.muted_until,
        reason=override.reason,
        changed=override.changed,
        changed_by=override.changed_by,
    )


def _testbeds(site: AppContext, rules: Rules) -> list[str]:
    """Return the testbeds whose traces match the query of an alert."""
    now = site.catalog.now()
    try:
        rows = now.table.rows(parse(rules.query))
    except UsageError:
        return []
    return sorted({_testbed_of(now.stored[row]) for row in rows} - {ALL_TESTBEDS})


def _empty() -> dict[str, Any]:
    return AlertRules(name="x").model_dump() | {"name": ""}
