"""Endpoint and models of ``/queue``: the jobs of comments that run and wait, and the hours of each person.

The start of a waiting job is an estimate: the running jobs take as long as usual, and the next ones follow in
the order of their requests, as many at once as run now.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from itertools import groupby
from math import inf
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from perftrend.dashboard import links
from perftrend.dashboard.auth import Viewer
from perftrend.dashboard.context import Context
from perftrend.dashboard.formats import monday_of
from perftrend.dashboard.pages import page
from perftrend.settings import Settings
from perftrend.store.requests import Request as JobRequest
from perftrend.store.requests import Requests, RequestState

router = APIRouter()

MOST_JOBS = 1000
"""Maximum number of jobs on the page."""
_WEEK = timedelta(weeks=1)
_HOUR_S = 3600


class QueuedJob(BaseModel):
    """A job that runs or waits."""

    change: int
    patch_set: int
    person: str
    """Name of the author of the comment."""
    job: str
    request: str
    """The line of the comment, with the requested tests."""
    requested: datetime
    estimated_s: float | None
    """Usual duration of the job without building; null: not known."""
    began: datetime | None
    """When it began; null: it waits."""
    estimated_start: datetime | None
    """When it will probably begin; null: it has begun, or that cannot be estimated."""
    is_ending: bool
    """Whether it was cancelled, and has not ended yet."""
    links: dict[str, str]
    """The known ones of the links ``change`` and ``build``."""


class TestbedQueue(BaseModel):
    """The jobs of a testbed."""

    testbed: str
    running: list[QueuedJob]
    waiting: list[QueuedJob]
    """In the order of their requests."""


class PersonHours(BaseModel):
    """How long the jobs of a person took."""

    person: str
    hours: list[float]
    """One value per week of ``weeks``: the jobs that began in it and have ended."""


class JobQueue(BaseModel):
    """The jobs that comments have requested."""

    now: datetime
    """The time of the estimates."""
    testbeds: list[TestbedQueue]
    is_complete: bool
    """Whether these are all jobs; otherwise they are the oldest ones."""
    weeks: list[date]
    """The Mondays on which the weeks began, in UTC, the newest first."""
    people: list[PersonHours]
    """The person with the most hours first."""


@router.get("/queue", response_model=JobQueue)
def queue(
    request: Request,
    site: Context,
    _: Viewer,
    weeks: Annotated[int, Query(ge=1, le=53, description="number of weeks")] = 8,
) -> Response:
    """Return the jobs that run and wait, with estimated starts, and hours per person and week."""
    now = datetime.now(UTC)
    found = site.store.requests.list_queue(MOST_JOBS + 1)
    mondays = _mondays(now, weeks)
    model = JobQueue(
        now=now,
        testbeds=testbed_queues(found[:MOST_JOBS], now, site.settings),
        is_complete=len(found) <= MOST_JOBS,
        weeks=mondays,
        people=_people(site.store.requests, mondays),
    )
    return page(request, "queue.html", model, title="Queue")


def estimated_starts(
    running: Iterable[tuple[datetime, float | None]], waiting: Iterable[float | None], now: datetime
) -> list[datetime | None]:
    """Return when jobs of a testbed will probably begin; None if that cannot be estimated.

    As many jobs run at once as run now, at least one. A job that takes longer than usual may end at any time.

    :param running: when each running job began, and its usual duration in seconds; None if unknown.
    :param waiting: the usual durations of the waiting jobs, in their order.
    """
    free_s = [
        inf if usual_s is None else max(0.0, usual_s - (now - began).total_seconds())
        for began, usual_s in running
    ] or [0.0]
    heapq.heapify(free_s)
    starts: list[datetime | None] = []
    for usual_s in waiting:
        start_s = free_s[0]
        starts.append(None if start_s == inf else now + timedelta(seconds=start_s))
        heapq.heapreplace(free_s, inf if usual_s is None else start_s + usual_s)
    return starts


def testbed_queues(found: Iterable[JobRequest], now: datetime, settings: Settings) -> list[TestbedQueue]:
    """Return the running and waiting jobs of each testbed, sorted by its name."""
    in_order = sorted(found, key=lambda each: each.testbed)
    return [
        _testbed(testbed, list(jobs), now, settings)
        for testbed, jobs in groupby(in_order, key=lambda each: each.testbed)
    ]


def _testbed(testbed: str, jobs: Sequence[JobRequest], now: datetime, settings: Settings) -> TestbedQueue:
    running = [each for each in jobs if each.began]
    waiting = [each for each in jobs if not each.began and each.state is not RequestState.CANCELLING]
    starts = estimated_starts(
        [(each.began, each.estimated_s) for each in running if each.began],
        [each.estimated_s for each in waiting],
        now,
    )
    return TestbedQueue(
        testbed=testbed,
        running=[_entry(each, None, settings) for each in running],
        waiting=[_entry(each, start, settings) for each, start in zip(waiting, starts, strict=True)],
    )


def _entry(job: JobRequest, start: datetime | None, settings: Settings) -> QueuedJob:
    addresses = {
        "change": links.of_change(job.project, job.change, settings),
        "build": links.external(job.link),
    }
    return QueuedJob(
        change=job.change,
        patch_set=job.patch_set,
        person=_person(job.account, job.author),
        job=job.job,
        request=job.line,
        requested=job.asked,
        estimated_s=job.estimated_s,
        began=job.began,
        estimated_start=start,
        is_ending=job.state is RequestState.CANCELLING,
        links={name: address for name, address in addresses.items() if address},
    )


def _person(account: str, author: str) -> str:
    return author or (account[1:].partition("@")[0] if account.startswith("@") else f"account {account}")


def _mondays(now: datetime, count: int) -> list[date]:
    return [monday_of(now.date()) - number * _WEEK for number in range(count)]


def _people(requests: Requests, mondays: Sequence[date]) -> list[PersonHours]:
    found: dict[str, PersonHours] = {}
    for number, monday in enumerate(mondays):
        since = datetime.combine(monday, time(), UTC)
        for each in requests.job_times(since, since + _WEEK):
            unknown = PersonHours(person=_person(each.account, each.author), hours=[0.0] * len(mondays))
            found.setdefault(each.account, unknown).hours[number] = round(each.duration_s / _HOUR_S, 2)
    return sorted(found.values(), key=lambda each: (-sum(each.hours), each.person))
