"""``/runs``."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from perftrend.dashboard import links
from perftrend.dashboard.kept import kept
from perftrend.dashboard.pages import page
from perftrend.dashboard.runs.model import RunEntry, Runs, TestbedRuns
from perftrend.dashboard.site import Site, TheSite
from perftrend.dashboard.users import Viewer
from perftrend.model import Run
from perftrend.store.tiles import revision_of

router = APIRouter()


@router.get("/runs", response_model=Runs)
@kept
def runs(
    request: Request,
    site: TheSite,
    _: Viewer,
    last: Annotated[int, Query(ge=1, le=1000, description="how many of each testbed")] = 20,
) -> Response:
    """Tell the newest runs of each testbed."""
    store = site.store
    told = Runs(testbeds=[_testbed(site, testbed, last) for testbed in store.tiles.testbeds()])
    return page(request, "runs.html", told, title="Runs", last=last)


def _testbed(site: Site, testbed: str, last: int) -> TestbedRuns:
    replaced = site.store.replaced(testbed)
    newest = site.store.runs(testbed, last=last)[::-1]
    return TestbedRuns(testbed=testbed, runs=[_entry(site, run, replaced=run in replaced) for run in newest])


def _entry(site: Site, run: Run, *, replaced: bool) -> RunEntry:
    return RunEntry(
        job=run.job,
        build=run.build,
        started=run.started,
        finished=run.finished,
        revision=revision_of(run.versions),
        simulated=run.simulated,
        experiment=run.experiment,
        archive=run.archive,
        replaced=replaced,
        links={} if replaced else dict(links.of_run(run, site.settings)),
    )
