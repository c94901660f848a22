"""Endpoints and models of ``/runs``: the runs in the store, newest first, with links to their archives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from pydantic import BaseModel, Field

from perftrend.dashboard import links
from perftrend.dashboard.auth import TestbedEditor, Viewer, require_editor
from perftrend.dashboard.context import AppContext, Context
from perftrend.dashboard.error_pages import in_field
from perftrend.dashboard.pages import body_of, done, page, parse_body
from perftrend.dashboard.response_cache import cacheable
from perftrend.model import Outcome, Run, revision_of
from perftrend.report.texts import WORST_FIRST, describe_outcomes
from perftrend.store.invalidations import Invalidation, validate_reason
from perftrend.store.verdicts import JudgedRun, RunVerdict

router = APIRouter()


class InvalidationEntry(BaseModel):
    """A mark of a run, or of one of its results, as invalid."""

    trace: str
    """The hash of the result's trace; empty: the whole run is invalid."""
    parameters: Mapping[str, str]
    """Parameters of the trace; empty for a run."""
    reason: str
    author: str
    moment: datetime

    @classmethod
    def of(cls, mark: Invalidation) -> InvalidationEntry:
        """Return the view of a mark."""
        return cls(
            trace=mark.key.hash if mark.key else "",
            parameters=mark.key.as_dict() if mark.key else {},
            reason=mark.reason,
            author=mark.author,
            moment=mark.moment,
        )


_WITH_VALUE = {Outcome.NORMAL, Outcome.REGRESSION, Outcome.PROGRESSION}


class VerdictEntry(BaseModel):
    """What the analysis of a run found."""

    outcomes: dict[str, int]
    """Number of results by outcome, such as ``{"normal": 40, "regression": 1}``."""
    worst: Outcome
    """The outcome that counts most; a regression before a failed test."""
    sentence: str
    """The numbers as text: ``1 regression, 40 normal``."""
    results: int
    """Number of results with a value."""
    suspected: int
    """Number of results whose trend may have changed; the next runs decide."""

    @classmethod
    def of(cls, verdict: RunVerdict) -> VerdictEntry:
        """Return the view of a verdict."""
        found = {outcome: number for outcome, number in verdict.outcomes.items() if number}
        return cls(
            outcomes={outcome.value: number for outcome, number in found.items()},
            worst=min(found, key=WORST_FIRST.index, default=Outcome.MISSING),
            sentence=describe_outcomes(found) or "no test was analysed",
            results=sum(number for outcome, number in found.items() if outcome in _WITH_VALUE),
            suspected=verdict.suspected,
        )


class RunEntry(BaseModel):
    """A run."""

    job: str
    build: int
    started: datetime
    finished: datetime
    verdict: VerdictEntry | None
    """Null: the run was not analysed, or by a job with another store."""
    revision: str
    """The commit of the product; empty: unknown."""
    simulated: bool
    experiment: str
    """How it differs from the nightly runs, such as ``acl_rules=60``; empty: it is one of them."""
    archive: str
    """Location of its files: a URL or a path; empty: unknown."""
    replaced: bool
    """Whether a later run of the job has this number, because its build numbers were reset. The address of
    the build then leads to the later run."""
    invalidations: list[InvalidationEntry]
    """Marks as invalid, oldest first."""
    links: dict[str, str]
    """The known ones of the links ``build``, ``report``, ``log``, ``archive`` and ``commit``."""


class TestbedRuns(BaseModel):
    """The newest runs of a testbed, newest first."""

    testbed: str
    runs: list[RunEntry]


class NewestRuns(BaseModel):
    """The newest runs of each testbed."""

    testbeds: list[TestbedRuns]


class Selection(BaseModel):
    """A run, or results of it."""

    job: Annotated[str, Field(max_length=255)]
    build: Annotated[int, Field(ge=0, le=2**31 - 1)]
    started: datetime | None = None
    """If several runs have this number, the one that started then; null: the newest."""
    test: Annotated[str, Field(max_length=1000)] = ""
    """Only the results of this test; empty: all."""
    trace: Annotated[str, Field(max_length=32)] = ""
    """Only the result of the trace with this hash; empty: all."""


class InvalidSelection(Selection):
    """Request to mark a run, or results of it, as invalid."""

    reason: Annotated[str, Field(max_length=2000)]
    """The limit is larger than that of the store, so that the error message of the store is shown."""


@router.get("/runs", response_model=NewestRuns)
@cacheable
def runs(
    request: Request,
    site: Context,
    _: Viewer,
    last: Annotated[int, Query(ge=1, le=1000, description="number of runs of each testbed")] = 20,
) -> Response:
    """Return the newest runs of each testbed."""
    store = site.store
    model = NewestRuns(testbeds=[_testbed(site, testbed, last) for testbed in store.tiles.testbeds()])
    return page(request, "runs.html", model, title="Runs", last=last)


@router.post("/runs/invalidate", response_model=RunEntry, openapi_extra=body_of(InvalidSelection))
def invalidate(
    request: Request,
    site: Context,
    user: TestbedEditor,
    selected: Annotated[InvalidSelection, Depends(parse_body(InvalidSelection))],
) -> Response:
    """Mark a run, or results of it, as invalid."""
    run = _find_run(site, selected)
    require_editor(user, [run.testbed])
    with in_field("reason"):
        reason = validate_reason(selected.reason)
    with in_field("test" if selected.test else ""):
        site.store.invalidations.add(run, reason, author=user.name, test=selected.test, trace=selected.trace)
    return _answer(request, site, run)


@router.post("/runs/restore", response_model=RunEntry, openapi_extra=body_of(Selection))
def restore(
    request: Request,
    site: Context,
    user: TestbedEditor,
    selected: Annotated[Selection, Depends(parse_body(Selection))],
) -> Response:
    """Remove the mark of a run, or of results of it; the activity log retains the reason."""
    run = _find_run(site, selected)
    require_editor(user, [run.testbed])
    site.store.invalidations.remove(run, author=user.name, test=selected.test, trace=selected.trace)
    return _answer(request, site, run)


def _find_run(site: AppContext, selected: Selection) -> Run:
    run = site.store.run(selected.job, selected.build, started=selected.started)
    if run is None:
        raise HTTPException(HTTPStatus.NOT_FOUND, f"the store has no run {selected.job}/{selected.build}")
    return run


def _answer(request: Request, site: AppContext, run: Run) -> Response:
    replaced = run in site.store.find_replaced(run.testbed)
    marks = site.store.invalidations.of_testbed(run.testbed)
    return done(
        request, "/runs", _entry(site, run, site.store.verdicts.of_run(run), marks, replaced=replaced)
    )


def run_entries(site: AppContext, testbed: str, newest: Iterable[JudgedRun]) -> list[RunEntry]:
    """Return the views of runs of a testbed."""
    replaced = site.store.find_replaced(testbed)
    marks = site.store.invalidations.of_testbed(testbed)
    return [_entry(site, run, verdict, marks, replaced=run in replaced) for run, verdict in newest]


def _testbed(site: AppContext, testbed: str, last: int) -> TestbedRuns:
    newest = site.store.verdicts.newest(testbed, last=last)
    return TestbedRuns(testbed=testbed, runs=run_entries(site, testbed, newest))


def _entry(
    site: AppContext, run: Run, verdict: RunVerdict | None, marks: Sequence[Invalidation], *, replaced: bool
) -> RunEntry:
    revision = revision_of(run.versions)
    return RunEntry(
        job=run.job,
        build=run.build,
        started=run.started,
        finished=run.finished,
        verdict=VerdictEntry.of(verdict) if verdict else None,
        revision=revision,
        simulated=run.simulated,
        experiment=run.experiment,
        archive=run.archive,
        replaced=replaced,
        invalidations=[InvalidationEntry.of(mark) for mark in marks if mark.run == run],
        links=({} if replaced else dict(links.of_run(run, site.settings)))
        | ({"commit": review} if (review := links.of_commit(revision, site.settings)) else {}),
    )
