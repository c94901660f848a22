"""The page of ``/``: what is new this morning on all testbeds.

It has the newest run of each testbed with its verdict, new items, missing data, the worst trends, and the
jobs that run and wait. Each part leads to the page that has all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import median

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel
from starlette.responses import RedirectResponse

from perftrend.analysis.formula import format_key
from perftrend.dashboard import links
from perftrend.dashboard.auth import Viewer
from perftrend.dashboard.catalog import Traces
from perftrend.dashboard.context import AppContext, Context
from perftrend.dashboard.links import EXPLORE
from perftrend.dashboard.pages import page
from perftrend.dashboard.queue import TestbedQueue, testbed_queues
from perftrend.dashboard.runs import RunEntry, run_entries
from perftrend.dashboard.triage.models import ItemView
from perftrend.dashboard.triage.views import item_views, name_of_trace, sparklines
from perftrend.store.alerts import CHANGES, OPEN, Item, ItemSelection
from perftrend.store.verdicts import JudgedRun
from perftrend.text import format_count

router = APIRouter()

SHOWN_RUNS = 14
"""Number of the newest runs of each testbed: two weeks of nights."""
SHOWN_ITEMS = 10
SHOWN_DECLINES = 10
SHOWN_JOBS = 20
_MISSING = ("stopped", "silence")
_LATE = 2
"""A testbed is late after this many usual intervals without a run."""
_FEWEST_INTERVALS = 3
"""Number of intervals between runs from which the usual one is known."""
_FORMAT = "format"


class TestbedOverview(BaseModel):
    """A testbed this morning."""

    testbed: str
    newest: RunEntry
    runs: list[RunEntry]
    """The newest nightly runs, the oldest first."""
    usual_interval_s: float | None
    """Median time between the starts of these runs; null: too few runs."""
    is_late: bool
    """Whether the last run is longer ago than two usual intervals."""
    usual_results: int | None
    """Median number of results with a value in the runs before the newest; null: not known."""
    results: int | None
    """Number of results with a value in the newest run; null: it was not analysed."""
    declines: int
    """Number of traces among the worst trends of all testbeds."""


class DeclineEntry(BaseModel):
    """A trace whose trend is below its best trend of the last three months."""

    trace: str
    """Display name."""
    testbed: str
    change: float
    """Relative to the best trend between three months and one week ago."""
    explore: str
    """Address of the plot."""


class Overview(BaseModel):
    """What is new this morning."""

    now: datetime
    testbeds: list[TestbedOverview]
    """Those with a regression first, then those without runs or with failed tests."""
    items: list[ItemView]
    """New regressions and progressions, at most 10."""
    new_items: int
    """Number of all of them."""
    my_items: int
    """Number of open items of the user."""
    missing: list[ItemView]
    """New items about missing runs and values, at most 10."""
    new_missing: int
    declines: list[DeclineEntry]
    """The worst long-term changes in the newest runs, the worst first, at most 10."""
    queue: list[TestbedQueue]
    """Running and waiting jobs that were requested, at most 20."""
    all_jobs: bool
    """Whether these are all jobs."""


@router.get("/", response_model=Overview)
def overview(request: Request, site: Context, user: Viewer) -> Response:
    """Return what is new this morning; an address of Explore from earlier versions is redirected."""
    if any(name != _FORMAT for name in request.query_params):
        return RedirectResponse(f"{EXPLORE}?{request.url.query}", 308)
    now = datetime.now(UTC)
    changes, new_items = _new_items(site, CHANGES)
    missing, new_missing = _new_items(site, _MISSING)
    jobs = site.store.requests.list_queue(SHOWN_JOBS + 1)
    judged = {
        testbed: site.store.verdicts.newest(testbed, last=SHOWN_RUNS)
        for testbed in site.store.tiles.testbeds()
    }
    declines = _declines(site, judged)
    testbeds = [_testbed(site, testbed, runs, declines, now) for testbed, runs in judged.items() if runs]
    model = Overview(
        now=now,
        testbeds=sorted(testbeds, key=_urgency),
        items=item_views(site, changes),
        new_items=new_items,
        my_items=site.store.alerts.items.count(ItemSelection(statuses=OPEN, owner=user.name)),
        missing=item_views(site, missing),
        new_missing=new_missing,
        declines=declines,
        queue=testbed_queues(jobs[:SHOWN_JOBS], now, site.settings),
        all_jobs=len(jobs) <= SHOWN_JOBS,
    )
    return page(
        request,
        "overview.html",
        model,
        title="Overview",
        description=f"{format_count(new_items, 'new item')}; {format_count(len(testbeds), 'testbed')}",
        sparklines=sparklines(site, changes) if changes else {},
    )


def _new_items(site: AppContext, kinds: Sequence[str]) -> tuple[list[Item], int]:
    return site.store.alerts.items.select(ItemSelection(statuses=("new",), kinds=kinds), limit=SHOWN_ITEMS)


def _testbed(
    site: AppContext,
    testbed: str,
    newest: Sequence[JudgedRun],
    declines: Sequence[DeclineEntry],
    now: datetime,
) -> TestbedOverview:
    # An experiment is no night, but if there is nothing else, it is shown.
    nights = [each for each in newest if not each[0].experiment] or newest
    runs = run_entries(site, testbed, nights)
    usual_s = _usual_interval_s(runs)
    counts = [run.verdict.results if run.verdict else None for run in runs]
    earlier = [count for count in counts[1:] if count is not None]
    return TestbedOverview(
        testbed=testbed,
        newest=runs[0],
        runs=runs[::-1],
        usual_interval_s=usual_s,
        is_late=usual_s is not None and now - runs[0].started > timedelta(seconds=_LATE * usual_s),
        usual_results=round(median(earlier)) if len(earlier) >= _FEWEST_INTERVALS else None,
        results=counts[0],
        declines=sum(each.testbed == testbed for each in declines),
    )


def _usual_interval_s(runs: Sequence[RunEntry]) -> float | None:
    """Return the median time between the starts of runs, the newest first; None if there are too few."""
    intervals = [(later.started - earlier.started).total_seconds() for later, earlier in pairwise(runs)]
    return median(intervals) if len(intervals) >= _FEWEST_INTERVALS else None


def _urgency(testbed: TestbedOverview) -> tuple[int, str]:
    verdict = testbed.newest.verdict
    order = ("regression", "testbed", "failed", "missing", "not valid")
    worst = order.index(verdict.worst) if verdict and verdict.worst in order else len(order)
    return (min(worst, 1) if testbed.is_late else worst), testbed.testbed


def _declines(site: AppContext, judged: dict[str, list[JudgedRun]]) -> list[DeclineEntry]:
    """Return the worst trends of the newest nightly runs of all testbeds."""
    known = site.catalog.now()
    found = []
    for runs in judged.values():
        verdict = next((verdict for run, verdict in runs if not run.experiment), None)
        found += [
            _decline(known, each.trace, each.change)
            for each in (verdict.declines if verdict else ())
            if each.trace in known.by_hash
        ]
    return sorted(found, key=lambda each: (-abs(each.change), each.testbed, each.trace))[:SHOWN_DECLINES]


def _decline(known: Traces, trace: str, change: float) -> DeclineEntry:
    key = known.by_hash[trace].key
    testbed = key.as_dict().get("testbed", "")
    return DeclineEntry(
        trace=name_of_trace(known, trace),
        testbed=testbed,
        change=change,
        explore=links.of_plot(testbed=testbed, ids=[format_key(key)]),
    )
