"""Endpoints of ``/jobs``: bisections and other jobs that are requested on a page, their progress and results.

The dashboard starts nothing itself. It stores a request, as the listener does for a comment in Gerrit, and
the listener starts the job, in Jenkins or on its machine. Therefore the process that serves pages needs
neither the rights nor the credentials for that.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request, Response
from pydantic import BaseModel, Field

from perftrend import links
from perftrend.analysis.formula import NormalId, format_key, parse_trace_id
from perftrend.bisect import command as bisect_command
from perftrend.bisect.command import Bisection
from perftrend.dashboard.auth import TestbedEditor, User, Viewer, require_editor
from perftrend.dashboard.context import AppContext, Context
from perftrend.dashboard.pages import body_of, done, page, parse_body
from perftrend.errors import FormulaError, PerftrendError
from perftrend.execution.job_request import Grammar, JobResult
from perftrend.execution.request_plans import plan_measurement
from perftrend.measure import specification
from perftrend.model import TraceKey
from perftrend.report.texts import describe_outcomes
from perftrend.store.alerts import CHANGES
from perftrend.store.requests import ACTIVE, PAGE, SERVED, RequestState
from perftrend.store.requests import Request as StoredRequest
from perftrend.trigger import CANCEL, Refusal, Trigger

router = APIRouter()

JobName = Literal["bisect", "perftest", "trending"]
TITLES = {
    "bisect": "Find the commit",
    "perftest": "Compare the commit with its parent",
    "trending": "Measure the tests again",
}
_KEY = r"^[0-9a-f]{64}$"
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_AWAY = timedelta(minutes=5)
"""If no listener has served the requests for this long, the page says so."""
_FOLLOWING_RUNS = 50
"""Newest runs among which that of a job is sought."""
_MADE_UP = "its results are simulated, and no such testbed is configured"
_ACTIVE = (*ACTIVE, RequestState.CANCELLING)
"""States of requests whose job has not ended."""
_WORDS = {
    RequestState.SEEN: "waits for the listener",
    RequestState.CLAIMED: "is about to start",
    RequestState.STARTED: "in the queue of Jenkins",
    RequestState.WAITING: "waits for the testbed",
    RequestState.RUNNING: "runs",
    RequestState.CANCELLING: "is ending",
    RequestState.CANCELLED: "was cancelled",
    RequestState.REFUSED: "was refused",
    RequestState.LIMITED: "was refused",
    RequestState.IGNORED: "was refused",
    RequestState.FAILED: "could not be started",
}


class WantedJob(BaseModel):
    """A job to request: for an item, or for a range of commits on a testbed."""

    job: JobName = "bisect"
    item: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    testbed: Annotated[str, Field(max_length=255)] = ""
    """Needed without an item, as the following ones are."""
    old: Annotated[str, Field(max_length=64)] = ""
    """A commit that was measured there."""
    new: Annotated[str, Field(max_length=64)] = ""
    """A later one."""
    trace: Annotated[str, Field(max_length=8000)] = ""
    """Id of the trace whose test is measured; empty: the default tests of the job."""


class JobOffer(BaseModel):
    """A job that can be requested, before anything is started."""

    job: JobName
    item: int | None
    testbed: str
    trace: str
    bisection: Bisection
    """The commits, and how to start a bisection without the dashboard."""
    line: str
    """The request, as it would be written in a comment."""
    tests: list[str]
    """Names of the tests; empty if a command of the product measures."""
    extent: str
    """Number of tests and estimated duration, as text."""
    problem: str
    """Why it cannot be requested; empty if it can."""
    is_served: bool
    """Whether a listener has served requests lately."""


class CulpritView(BaseModel):
    """A commit that a bisection has found."""

    commit: str
    subject: str
    author: str
    deed: str
    """What it did, with the probability."""
    link: str
    """URL of its review; empty: unknown."""


class JobView(BaseModel):
    """A job that was requested on a page."""

    key: str
    job: str
    testbed: str
    line: str
    person: str
    requested: datetime
    state: str
    """In words."""
    is_active: bool
    """Whether it has not ended yet."""
    reason: str
    """Why it was refused or ended; empty if it was not."""
    extent: str
    progress: str
    """What it does now; empty if that is not known."""
    exit_code: int | None
    sentence: str
    """Its result; empty if there is none."""
    culprits: list[CulpritView]
    link: str
    """URL of the report or of the build; empty: unknown."""
    item: int | None

    @property
    def title(self) -> str:
        """What it is for."""
        return TITLES.get(self.job, self.job)


Key = Annotated[str, Path(pattern=_KEY, description="key of a request")]


@router.get("/jobs/new", response_model=JobOffer)
def offer(request: Request, site: Context, user: Viewer, wanted: Annotated[WantedJob, Query()]) -> Response:
    """Return what a job would measure and how long it would take; nothing is started."""
    model = _offer(site, wanted)
    return page(
        request, "job-new.html", model, title=TITLES[wanted.job], may_edit=user.may_edit(model.testbed)
    )


@router.post("/jobs", response_model=JobView, status_code=201, openapi_extra=body_of(WantedJob))
def request_job(
    request: Request,
    site: Context,
    user: TestbedEditor,
    wanted: Annotated[WantedJob, Depends(parse_body(WantedJob))],
) -> Response:
    """Request a job; the listener starts it. If the same job is queued or running, that one is returned."""
    if wanted.item is None:
        require_editor(user, [wanted.testbed])
    offered = _offer(site, wanted)
    require_editor(user, [offered.testbed])
    if offered.problem:
        raise HTTPException(HTTPStatus.CONFLICT, offered.problem)
    stored = _find_same(site, offered) or _add(site, offered, user)
    return done(request, f"/jobs/{stored.key}", _view(site, stored), status=HTTPStatus.CREATED)


@router.get("/jobs/{key}", response_model=JobView)
def job(request: Request, site: Context, user: Viewer, key: Key) -> Response:
    """Return the state of a requested job, its progress and its result."""
    stored = _stored(site, key)
    return page(
        request,
        "job.html",
        (model := _view(site, stored)),
        title=model.title,
        may_edit=user.may_edit(stored.testbed),
        is_served=_is_served(site),
    )


@router.post("/jobs/{key}/cancel", response_model=JobView)
def cancel(request: Request, site: Context, user: TestbedEditor, key: Key) -> Response:
    """Cancel a job that is queued or running."""
    stored = _stored(site, key)
    require_editor(user, [stored.testbed])
    if stored.state in _ACTIVE and stored.state is not RequestState.CANCELLING:
        now = datetime.now(UTC)
        by = _request(stored.testbed, user, now, line=f"Cancelled by {user.name}", job=CANCEL)
        site.store.requests.cancel(replace(by, state=RequestState.DONE, decided=now), [stored])
    return done(request, f"/jobs/{key}", _view(site, _stored(site, key)))


def jobs_of_item(site: AppContext, item: int) -> list[JobView]:
    """Return the jobs that were requested for an item, the newest first."""
    return [_view(site, each) for each in site.store.requests.of_item(item)]


def _offer(site: AppContext, wanted: WantedJob) -> JobOffer:
    scope = _of_item(site, wanted.item) if wanted.item else _of_range(site, wanted)
    bisection = bisect_command.prepare(site.settings, scope.testbed, scope.key, old=scope.old, new=scope.new)
    if bisection is None:
        raise _invalid("the commits of this change are not known")
    trigger, problem = _trigger(site, wanted.job, scope, bisection)
    tests: Sequence[str] = ()
    extent = ""
    if trigger:
        try:
            plan = plan_measurement(site.settings, site.store.requests, trigger)
            tests, extent = plan.names, str(plan)
        except PerftrendError as error:
            problem = str(error)
    if wanted.job == "trending" and scope.key and not bisect_command.tests_of(scope.key):
        problem = problem or "no suite measures this test; start a bisection or a comparison instead"
    if wanted.job != "trending" and not site.settings.project.profile:
        problem = problem or "project.profile is not set, so no commit can be built"
    is_configured = scope.testbed in specification.names(site.settings.testbeds)
    if not is_configured and site.store.tiles.has_simulated(scope.testbed):
        problem = _MADE_UP
    return JobOffer(
        job=wanted.job,
        item=wanted.item,
        testbed=scope.testbed,
        trace=format_key(scope.key) if scope.key else "",
        bisection=bisection,
        line=str(trigger or ""),
        tests=list(tests),
        extent=extent,
        problem=problem,
        is_served=_is_served(site),
    )


@dataclass(frozen=True, slots=True)
class _Scope:
    """What a job is about."""

    testbed: str
    key: TraceKey | None
    """The trace whose test is measured; None: the default tests of the job."""
    old: str
    new: str


def _of_item(site: AppContext, identity: int) -> _Scope:
    item = site.store.alerts.items.one(identity)
    if item is None:
        raise HTTPException(HTTPStatus.NOT_FOUND, f"item {identity} does not exist")
    if item.kind not in CHANGES:
        raise _invalid(f"item {identity} is no change of values")
    stored = site.catalog.now().by_hash.get(item.trace)
    span = item.span
    return _Scope(
        item.testbed, stored.key if stored else None, span.last_good.revision, span.first_changed.revision
    )


def _of_range(site: AppContext, wanted: WantedJob) -> _Scope:
    """Return a range of commits, which must have been measured on the testbed."""
    if wanted.testbed not in site.store.tiles.testbeds():
        raise HTTPException(HTTPStatus.NOT_FOUND, "testbed: the store has no runs of it")
    columns = site.store.tiles.axis(wanted.testbed).columns
    measured = {column.revision: place for place, column in enumerate(columns) if column.revision}
    for name, commit in (("old", wanted.old), ("new", wanted.new)):
        if not _COMMIT.fullmatch(commit) or commit not in measured:
            raise _invalid(f"{name}: name a commit that was measured on this testbed, by its full hash")
    if measured[wanted.old] >= measured[wanted.new]:
        raise _invalid("old: name a commit that was measured before new")
    return _Scope(wanted.testbed, _read_trace(site, wanted), wanted.old, wanted.new)


def _read_trace(site: AppContext, wanted: WantedJob) -> TraceKey | None:
    if not wanted.trace:
        return None
    try:
        parsed = parse_trace_id(wanted.trace)
    except FormulaError as error:
        raise _invalid(f"trace: {error}") from None
    stored = site.catalog.now().of_key(parsed.key) if isinstance(parsed, NormalId) else None
    if stored is None or stored.key.as_dict().get("testbed") != wanted.testbed:
        raise _invalid("trace: the store has no such trace of this testbed")
    return stored.key


def _invalid(message: str) -> HTTPException:
    return HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, message)


def _trigger(
    site: AppContext, job_name: str, scope: _Scope, bisection: Bisection
) -> tuple[Trigger | None, str]:
    """Return the request of a job, and why it cannot be made; empty if it can."""
    text = bisection.comment
    if job_name != "bisect":
        word = bisect_command.usual_word(site.settings, job_name, scope.testbed)
        include = bisect_command.tests_of(scope.key)
        text = str(Trigger(job_name, scope.testbed, include=include, word=word))
    try:
        found = Grammar.of(site.settings).parse(text)
    except PerftrendError as error:
        return None, str(error)
    if len(found) != 1 or isinstance(found[0], Refusal):
        return None, found[0].reason if found and isinstance(
            found[0], Refusal
        ) else f"{scope.testbed} has no file"
    return found[0], ""


def _find_same(site: AppContext, offered: JobOffer) -> StoredRequest | None:
    """Return the same request if its job has not ended: a second click starts no second job."""
    same = (offered.line, offered.testbed, offered.bisection.new)
    active = [each for each in site.store.requests.in_states(*_ACTIVE) if each.is_of_page]
    return next((each for each in active if (each.line, each.testbed, each.revision) == same), None)


def _add(site: AppContext, offered: JobOffer, user: User) -> StoredRequest:
    now = datetime.now(UTC)
    made = _request(
        offered.testbed, user, now,
        line=offered.line, job=offered.job, revision=offered.bisection.new, item=offered.item,
    )  # fmt: skip
    site.store.requests.add([made])
    return made


def _request(
    testbed: str,
    user: User,
    now: datetime,
    *,
    line: str,
    job: str,
    revision: str = "",
    item: int | None = None,
) -> StoredRequest:
    key = secrets.token_hex(32)
    return StoredRequest(
        key=key, change=0, patch_set=0, project="", branch="", revision=revision, ref="", review=key,
        comment=key, path=None, account=f"{PAGE}{user.name}"[:255], asked=now, place=0, line=line, job=job,
        testbed=testbed, answered=True, author=user.name[:255], item=item,
    )  # fmt: skip


def _stored(site: AppContext, key: str) -> StoredRequest:
    found = site.store.requests.with_keys([key]).get(key)
    if found is None or not found.is_of_page or found.job == CANCEL:
        raise HTTPException(HTTPStatus.NOT_FOUND, "this job does not exist")
    return found


def _is_served(site: AppContext) -> bool:
    served = site.store.requests.mark(SERVED)
    return served is not None and datetime.now(UTC) - served < _AWAY


def _verdict(site: AppContext, stored: StoredRequest) -> str:
    """Return the verdict of the run that a job has measured; empty if it did not, or is not analysed yet."""
    if stored.job != "trending" or stored.exit_code is None:
        return ""
    measured = [
        (run, verdict)
        for run, verdict in site.store.verdicts.newest(stored.testbed, last=_FOLLOWING_RUNS)
        if verdict and run.started >= (stored.began or stored.asked)
    ]
    if not measured:
        return ""
    run, verdict = measured[-1]
    return f"{run.name}: {describe_outcomes(verdict.outcomes)}"


def _view(site: AppContext, stored: StoredRequest) -> JobView:
    result = JobResult.of(stored.result) if stored.result else JobResult("")
    state = _WORDS.get(stored.state, "has ended")
    if stored.state is RequestState.STARTED and stored.began:
        state = "runs"
    return JobView(
        key=stored.key,
        job=stored.job,
        testbed=stored.testbed,
        line=stored.line,
        person=stored.author,
        requested=stored.asked,
        state=state,
        is_active=stored.state in _ACTIVE,
        reason=stored.reason,
        extent=stored.told,
        progress=stored.progress,
        exit_code=stored.exit_code,
        sentence=result.sentence or _verdict(site, stored),
        culprits=[
            CulpritView(
                commit=each.commit,
                subject=each.subject,
                author=each.author,
                deed=each.deed,
                link=links.of_commit(each.commit, site.settings),
            )
            for each in result.culprits
        ],
        link=links.external(result.link) or links.external(stored.link),
        item=stored.item,
    )
