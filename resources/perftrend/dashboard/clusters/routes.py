"""Endpoints of ``/clusters``."""

from __future__ import annotations

from itertools import accumulate
from math import ceil
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request, Response
from starlette.responses import RedirectResponse

from perftrend.analysis.cluster import TriageStatus
from perftrend.dashboard.clusters import finding
from perftrend.dashboard.clusters.drawing import drawing
from perftrend.dashboard.clusters.model import (
    LARGEST_NUMBER,
    Cancellation,
    Changed,
    ClusterDetail,
    ClusterFilter,
    ClusteringRequest,
    ClusteringView,
    ClusterPage,
    Edit,
    Edits,
    Entry,
    Reset,
    ResetPage,
)
from perftrend.dashboard.clusters.options import Options
from perftrend.dashboard.clusters.views import (
    alike,
    cluster_views,
    clustering_view,
    explore_link,
    ids_of,
    label,
    named,
    searched,
)
from perftrend.dashboard.kept import kept
from perftrend.dashboard.pages import done, page
from perftrend.dashboard.sent import body_of, sent
from perftrend.dashboard.site import Site, TheSite
from perftrend.dashboard.users import Editor, Viewer
from perftrend.store.clusterings import Clustering
from perftrend.store.clusters import StoredCluster, Triaged
from perftrend.store.shortcuts import LONGEST_SHORTCUT, MOST_TRACES

router = APIRouter()

PER_PAGE = 25
TRACES_PER_PAGE = 500
_SHOWN_ENTRIES = 100
_CONFLICT: dict[int | str, dict[str, Any]] = {
    409: {"model": Changed, "description": "Another user has changed it in the meantime."}
}

Identity = Annotated[int, Path(ge=1, le=LARGEST_NUMBER, description="id of a cluster")]
TheRequest = Annotated[ClusteringRequest, Depends(sent(ClusteringRequest))]
TheCancellation = Annotated[Cancellation, Depends(sent(Cancellation))]
TheEdit = Annotated[Edit, Depends(sent(Edit))]
TheEdits = Annotated[Edits, Depends(sent(Edits))]
TheReset = Annotated[Reset, Depends(sent(Reset))]
Testbed = Annotated[str, Query(max_length=255, description="testbed of the clusters; empty: all")]


@router.get("/clusters", response_model=ClusterPage)
@kept
def clusters(
    request: Request, site: TheSite, _: Viewer, wanted: Annotated[ClusterFilter, Query()]
) -> Response:
    """Return the clusters that match a filter."""
    store, testbed = site.store, _known(site, wanted.testbed)
    known = store.clusters.counts(testbed)
    counts = {each: known.get(each, 0) for each in TriageStatus}
    total = counts[wanted.chosen] if wanted.chosen else sum(counts.values())
    kept = store.clusters.kept(
        testbed,
        status=wanted.chosen,
        newest=wanted.order == "newest",
        limit=PER_PAGE,
        offset=(wanted.page - 1) * PER_PAGE,
    )
    told = ClusterPage(
        testbeds=store.tiles.testbeds(),
        testbed=wanted.testbed,
        status=wanted.chosen,
        order=wanted.order,
        counts=counts,
        page=wanted.page,
        pages=max(ceil(total / PER_PAGE), 1),
        clusters=cluster_views(site, kept),
        clusterings=[
            clustering_view(each) for each in store.clusterings.all() if testbed in {None, each.testbed}
        ],
    )
    return page(
        request, "clusters.html", told, title="Clusters", options=Options(), deleted=wanted.deleted,
        drawing=drawing, alike=alike, label=label, named=named,
    )  # fmt: skip


@router.post(
    "/clusters", response_model=ClusteringView, status_code=202, openapi_extra=body_of(ClusteringRequest)
)
def cluster_now(request: Request, site: TheSite, user: Editor, asked: TheRequest) -> Response:
    """Request a clustering of a testbed, or join the one that is waiting or running."""
    finding.checked(site, asked.testbed, asked.chosen)
    task, is_new = site.store.clusterings.ask(asked.testbed, asked.chosen.model_dump(), user.name)
    told = clustering_view(task, joined=not is_new)
    query = urlencode({"testbed": asked.testbed, "joined": not is_new})
    return done(request, f"/clusters/progress?{query}", told, status=202)


@router.get("/clusters/progress", response_model=ClusteringView)
def progress(
    request: Request,
    site: TheSite,
    _: Viewer,
    testbed: Annotated[str, Query(min_length=1, max_length=255)],
    joined: bool = False,
) -> Response:
    """Return the progress of the newest clustering of a testbed."""
    task = _clustered(testbed, site.store.clusterings.of(testbed) if _known(site, testbed) else None)
    return page(
        request, "clustering.html", clustering_view(task, joined=joined), title=f"Clustering of {testbed}"
    )


@router.post("/clusters/cancel", response_model=ClusteringView, openapi_extra=body_of(Cancellation))
def cancel(request: Request, site: TheSite, user: Editor, said: TheCancellation) -> Response:
    """Cancel the clustering of a testbed, if it is waiting or running."""
    task = site.store.clusterings.cancel(said.testbed, user.name)
    told = clustering_view(_clustered(said.testbed, task))
    return done(request, f"/clusters/progress?{urlencode({'testbed': said.testbed})}", told)


@router.post("/clusters/triage", response_model=Changed, responses=_CONFLICT, openapi_extra=body_of(Edits))
def triage(request: Request, site: TheSite, user: Editor, edits: TheEdits) -> Response:
    """Edit several clusters: all of them, or none if one was changed meanwhile."""
    triaged = site.store.clusters.triage(
        edits.clusters, status=edits.status, message=edits.message, who=user.name
    )
    return _answer(request, site, triaged, TriageStatus(edits.status), edits.message)


@router.get("/clusters/reset", response_model=ResetPage)
def reset_asked(request: Request, site: TheSite, _: Editor, testbed: Testbed = "") -> Response:
    """Return the number of clusters that a reset would delete."""
    return page(request, "clusters_reset.html", _reset_page(site, testbed), title="Reset clusters")


@router.post("/clusters/reset", response_model=ResetPage, openapi_extra=body_of(Reset))
def reset(request: Request, site: TheSite, user: Editor, wanted: TheReset) -> Response:
    """Delete all clusters that are not bugs."""
    before = _reset_page(site, wanted.testbed)
    if not wanted.confirm:
        raise HTTPException(
            400, "a reset deletes all clusters except bugs; select the check box, or send confirm"
        )
    deleted = site.store.clusters.reset(wanted.testbed or None, keep=TriageStatus.BUG, who=user.name)
    told = before.model_copy(update={"deleted": deleted})
    return done(request, _list_of(wanted.testbed, deleted), told)


@router.get("/clusters/{identity}", response_model=ClusterDetail)
@kept
def cluster(
    request: Request,
    site: TheSite,
    _: Viewer,
    identity: Identity,
    start: Annotated[int, Query(alias="from", ge=0, le=LARGEST_NUMBER, description="first trace shown")] = 0,
) -> Response:
    """Return all details of a cluster, with all its traces."""
    kept = _one(site, identity)
    entries = site.store.activity.newest(_SHOWN_ENTRIES, f"cluster {identity}")
    told = ClusterDetail(
        cluster=cluster_views(site, [kept], whole=True)[0],
        search=searched(site, kept),
        activity=[Entry.model_validate(each, from_attributes=True) for each in entries],
    )
    return page(
        request, "cluster.html", told, title=f"Cluster {identity}", start=start, shown=TRACES_PER_PAGE,
        drawing=drawing, alike=alike, label=label, named=named,
    )  # fmt: skip


@router.post("/clusters/{identity}", response_model=Changed, responses=_CONFLICT, openapi_extra=body_of(Edit))
def edit(request: Request, site: TheSite, user: Editor, identity: Identity, said: TheEdit) -> Response:
    """Edit a cluster."""
    triaged = site.store.clusters.triage(
        {identity: said.version}, status=said.status, message=said.message, who=user.name
    )
    return _answer(request, site, triaged, TriageStatus(said.status), said.message)


@router.get("/clusters/{identity}/explore", status_code=303, response_class=RedirectResponse)
def explore(site: TheSite, _: Viewer, identity: Identity) -> RedirectResponse:
    """Redirect to the plot of the first traces of a cluster."""
    return RedirectResponse(explore_link(site, _one(site, identity)), 303)


@router.post("/clusters/{identity}/explore", status_code=303, response_class=RedirectResponse)
def explore_all(site: TheSite, user: Editor, identity: Identity) -> RedirectResponse:
    """Save the traces of a cluster as a shortcut, at most the 1000 nearest, and redirect to its plot."""
    kept = _one(site, identity)
    ids = ids_of(site, [name for name, _ in kept.members[:MOST_TRACES]])
    lengths = accumulate(len(each) + 3 for each in ids)
    short = [each for each, length in zip(ids, lengths, strict=True) if length < LONGEST_SHORTCUT]
    shortcut = site.store.shortcuts.keep(short, user=user.name)
    return RedirectResponse(f"/?{urlencode({'testbed': kept.testbed, 'shortcut': shortcut})}", 303)


def _answer(
    request: Request, site: Site, triaged: Triaged, status: TriageStatus, message: str | None
) -> Response:
    if triaged.gone and not triaged.now:
        raise HTTPException(404, f"unknown cluster: {', '.join(map(str, triaged.gone))}")
    told = Changed(
        done=triaged.done,
        error="" if triaged.done else _conflict(triaged),
        clusters=cluster_views(site, triaged.now),
    )
    if triaged.done:
        back = f"/clusters/{told.clusters[0].id}" if len(told.clusters) == 1 else "/clusters"
        return done(request, back, told)
    return page(
        request, "clusters_conflict.html", told, title="Someone else changed this", status=409,
        wanted_status=status, wanted_message=message,
    )  # fmt: skip


def _conflict(triaged: Triaged) -> str:
    """Return a message with the conflicting edits of other users."""
    told = [_said_of(each) for each in triaged.refused]
    told += [f"cluster {identity} was deleted" for identity in triaged.gone]
    return f"{'; '.join(told)}: nothing was changed"


def _said_of(cluster: StoredCluster) -> str:
    if cluster.changed is None:
        return f"cluster {cluster.identity} was never changed, and has version {cluster.version}"
    message = f" ({cluster.message})" if cluster.message else ""
    when = f"{cluster.changed:%Y-%m-%d %H:%M} UTC"
    return f"{cluster.changed_by} set cluster {cluster.identity} to {cluster.status}{message} at {when}"


def _reset_page(site: Site, testbed: str) -> ResetPage:
    counts = site.store.clusters.counts(_known(site, testbed))
    keeps = counts.get(TriageStatus.BUG, 0)
    return ResetPage(testbed=testbed, would_delete=sum(counts.values()) - keeps, keeps=keeps)


def _one(site: Site, identity: int) -> StoredCluster:
    kept = site.store.clusters.one(identity)
    if kept is None:
        raise HTTPException(404, f"cluster {identity} does not exist; a reset may have deleted it")
    return kept


def _clustered(testbed: str, task: Clustering | None) -> Clustering:
    if task is None:
        raise HTTPException(404, f"testbed {testbed} was never clustered; request a clustering at /clusters")
    return task


def _known(site: Site, testbed: str) -> str | None:
    """Return a testbed of the store; None, which means all, if the name is empty."""
    if testbed and testbed not in site.store.tiles.testbeds():
        raise HTTPException(404, f"testbed {testbed!r} has no runs in the store")
    return testbed or None


def _list_of(testbed: str, deleted: int) -> str:
    return f"/clusters?{urlencode({'testbed': testbed, 'deleted': deleted})}"
