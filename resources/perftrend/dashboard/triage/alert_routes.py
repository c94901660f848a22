"""Endpoints of ``/alerts``, and dry runs of alerts.

A dry run applies an alert to the newest nights, one dry run at a time in a thread. It sends nothing and
writes nothing. The newest dry run of each alert and testbed is stored in memory until the dashboard stops;
the oldest are discarded.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request, Response

from perftrend.analysis.alerts import FindingRule, NightReport, replay_nights
from perftrend.analysis.alerts.findings import largest
from perftrend.analysis.formula import Query as TraceQuery
from perftrend.analysis.formula import Term
from perftrend.analysis.query import parse
from perftrend.dashboard.auth import Role, TestbedEditor, User, Viewer, require_editor
from perftrend.dashboard.background import defect
from perftrend.dashboard.context import AppContext, Context
from perftrend.dashboard.error_pages import FieldError, in_field
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
    NightView,
    OverrideEdit,
    OverrideView,
    WouldNotify,
)
from perftrend.dashboard.triage.alert_scan import history_of, watches_of
from perftrend.dashboard.triage.models import LARGEST_NUMBER
from perftrend.dashboard.triage.notifications import delivery_problem, name_of
from perftrend.errors import PerftrendError, StoreError, UsageError, explain
from perftrend.store.access import ALL_TESTBEDS
from perftrend.store.activity import EditResult
from perftrend.store.alerts import Alert, Override, Rules
from perftrend.store.tiles import StoredTrace

LOG = logging.getLogger(__name__)

MOST_WORK = 60_000
"""Maximum number of traces times nights; takes about a minute."""
_MOST_RUNS = 50
_MOST_NAMES = 10

router = APIRouter()

_CONFLICT: dict[int | str, dict[str, Any]] = {
    409: {"model": AlertDetail, "description": "Another user has changed it in the meantime."}
}

Identity = Annotated[int, Path(ge=1, le=LARGEST_NUMBER, description="id of an alert")]


@dataclass
class DryRuns:
    """The dry runs of a process; safe for several threads."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _turn: threading.Lock = field(default_factory=threading.Lock)
    """Held by the dry run that is executed."""
    _runs: OrderedDict[tuple[int, str], DryRun] = field(default_factory=OrderedDict)

    def find(self, alert: int, testbed: str) -> DryRun | None:
        """Return the newest dry run of an alert on a testbed with its progress; None if there is none."""
        with self._lock:
            return self._runs.get((alert, testbed))

    def newest(self, alert: int) -> DryRun | None:
        """Return the newest dry run of an alert on any testbed."""
        with self._lock:
            return next((run for (of, _), run in reversed(self._runs.items()) if of == alert), None)

    def begin(self, site: AppContext, alert: Alert, testbed: str, *, nights: int) -> DryRun:
        """Start a dry run, or return the one that is waiting or running.

        :raises UsageError: if the alert has no traces on the testbed, or too many for the number of nights.
        """
        known = site.catalog.now()
        rows = known.of_testbed(testbed)
        overrides = site.store.alerts.overrides(alert.identity)
        outliers = site.settings.analysis.outliers
        watches = watches_of(known.table, rows, [alert], overrides, outliers=outliers, now=datetime.now(UTC))
        if not watches:
            raise UsageError(f"alert {alert.rules.name!r} matches no traces of testbed {testbed}")
        (watch,) = watches
        chosen = [known.stored[row] for row in rows[watch.rows]]
        nights = min(nights, len(site.store.tiles.axis(testbed).columns))
        if len(chosen) * nights > MOST_WORK:
            fewer = MOST_WORK // len(chosen)
            hint = f"choose {fewer} nights" if fewer else "give the alert a query with fewer traces"
            message = f"{len(chosen)} traces in {nights} nights are too many for a dry run; {hint}"
            raise FieldError("nights", message)
        key = (alert.identity, testbed)
        with self._lock:
            now = self._runs.get(key)
            if now and now.state in {"waiting", "running"}:
                return now
            run = DryRun(
                alert=alert.identity, version=alert.version, testbed=testbed, state="waiting", nights=nights,
                looked_at=0, traces=len(chosen), told=[],
            )  # fmt: skip
            self._runs[key] = run
            self._runs.move_to_end(key)
            while len(self._runs) > _MOST_RUNS:
                self._runs.popitem(last=False)
        work = threading.Thread(
            target=self._work, args=(site, watch.rule, chosen, run), daemon=True, name="dry run"
        )
        work.start()
        return run

    def _work(self, site: AppContext, rule: FindingRule, traces: list[StoredTrace], run: DryRun) -> None:
        with self._turn:
            try:
                self._replay(site, rule, traces, run)
            except StoreError:
                self._note(run, state="failed", error="the database cannot be reached; try again later")
            except (PerftrendError, MemoryError) as error:
                self._note(run, state="failed", error=explain(error) or "there is not enough memory")
            except Exception as error:
                # Show defects, too, to the user who waits for the result.
                LOG.exception("dry run of alert %d on %s", run.alert, run.testbed)
                message = f"{defect(error)}; see the log of the dashboard"
                self._note(run, state="failed", error=message)

    def _replay(self, site: AppContext, rule: FindingRule, traces: list[StoredTrace], run: DryRun) -> None:
        self._note(run, state="running")
        axis = site.store.tiles.axis(run.testbed)
        history = history_of(site.store, axis, traces, last=rule.detector.history + run.nights)
        named = {trace.hash: name_of(trace.key) for trace in traces}
        views: list[NightView] = []
        nights = replay_nights(rule, history, nights=run.nights, between=site.traffic.give_way_callback())
        for number, night in enumerate(nights, 1):
            if night.new or night.closed or night.joined:
                views.append(_dry_run_view(night, named))
            self._note(run, looked_at=number, told=list(views))
        self._note(run, state="done")

    def _note(self, run: DryRun, **changed: object) -> None:
        key = (run.alert, run.testbed)
        with self._lock:
            self._runs[key] = self._runs.get(key, run).model_copy(update=changed)


def _dry_run_view(night: NightReport, named: dict[str, str]) -> NightView:
    items = []
    for span, findings in night.new:
        ordered = sorted(findings, key=lambda each: (-_size(each.relative), each.trace))
        top = largest(findings)
        items.append(
            WouldNotify(
                kind=findings[0].kind.value,
                last_good=span.last_good.revision,
                first_changed=span.first_changed.revision,
                first_changed_at=span.first_changed.moment,
                traces=len(findings),
                names=[named[each.trace] for each in ordered[:_MOST_NAMES]],
                largest=top.relative if top and _size(top.relative) else None,
            )
        )
    return NightView(
        commit=night.night.revision,
        moment=night.night.moment,
        items=items,
        joined=night.joined,
        closed=night.closed,
    )


def _size(relative: float) -> float:
    return abs(relative) if relative == relative else 0.0  # noqa: PLR0124 - NaN is not itself


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
