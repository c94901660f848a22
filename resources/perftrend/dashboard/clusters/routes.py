"""Endpoints of ``/clusters``."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request, Response
from starlette.responses import RedirectResponse

from perftrend.analysis.cluster import TriageStatus
from perftrend.dashboard import links
from perftrend.dashboard.auth import TestbedEditor, User, Viewer, require_editor
from perftrend.dashboard.clusters import clustering
from perftrend.dashboard.clusters.models import (
    LARGEST_NUMBER,
    Cancellation,
    ClusterDetail,
    ClusterEdits,
    ClusterFilter,
    ClusteringRequest,
    ClusteringView,
    ClusterOptions,
    ClusterPage,
    Edit,
    EditedClusters,
    Reset,
    ResetPage,
)
from perftrend.dashboard.clusters.views import (
    alike,
    cluster_views,
    clustering_view,
    draw_centroid,
    explore_link,
    format_parameters,
    ids_of,
    label,
    prepare_bisect_commands,
)
from perftrend.dashboard.context import AppContext, Context
from perftrend.dashboard.pages import body_of, done, page, parse_body
from perftrend.dashboard.response_cache import cacheable
from perftrend.store.activity import BulkEditResult
from perftrend.store.clusterings import NewestClustering
from perftrend.store.clusters import StoredCluster
from perftrend.store.shortcuts import MOST_TRACES
from perftrend.text import format_count

router = APIRouter()

PER_PAGE = 25
TRACES_PER_PAGE = 500
_SHOWN_ENTRIES = 100
_CONFLICT: dict[int | str, dict[str, Any]] = {
    409: {"model": EditedClusters, "description": "Another user has changed it in the meantime."}
}

Identity = Annotated[int, Path(ge=1, le=LARGEST_NUMBER, description="id of a cluster")]
TheRequest = Annotated[ClusteringRequest, Depends(parse_body(ClusteringRequest))]
TheCancellation = Annotated[Cancellation, Depends(parse_body(Cancellation))]
TheEdit = Annotated[Edit, Depends(parse_body(Edit))]
TheEdits = Annotated[ClusterEdits, Depends(parse_body(ClusterEdits))]
TheReset = Annotated[Reset, Depends(parse_body(Reset))]
Testbed = Annotated[str, Query(max_length=255, description="testbed of the clusters; empty: all")]


@router.get("/clusters", response_model=ClusterPage)
@cacheable
def clusters(
    request: Request, site: Context, _: Viewer, wanted: Annotated[ClusterFilter, Query()]
) -> Response:
    """Return the clusters that match a filter."""
    store, testbed = site.store, _check_testbed(site, wanted.testbed)
    known = store.clusters.counts(testbed)
    counts = {each: known.get(each, 0) for each in TriageStatus}
    total = counts[wanted.chosen] if wanted.chosen else sum(counts.values())
    stored = store.clusters.select(
        testbed,
        status=wanted.chosen,
        newest=wanted.order == "newest",
        limit=PER_PAGE,
        offset=(wanted.page - 1) * PER_PAGE,
    )
    model = ClusterPage(
        testbeds=store.tiles.testbeds(),
        testbed=wanted.testbed,
        status=wanted.chosen,
        order=wanted.order,
        counts=counts,
        page=wanted.page,
        pages=max(ceil(total / PER_PAGE), 1),
        clusters=cluster_views(site, stored),
        clusterings=[
            clustering_view(each) for each in store.clusterings.all() if testbed in {None, each.testbed}
        ],
    )
    return page(
        request, "clusters.html", model, title="Clusters", options=ClusterOptions(), deleted=wanted.deleted,
        drawing=draw_centroid, alike=alike, label=label, named=format_parameters,
    )  # fmt: skip


@router.post(
    "/clusters", response_model=ClusteringView, status_code=202, openapi_extra=body_of(ClusteringRequest)
)
def cluster_now(request: Request, site: Context, user: TestbedEditor, wanted: TheRequest) -> Response:
    """Request a clustering of a testbed, or join the one that is waiting or running."""
    clustering.validate_request(site, wanted.testbed, wanted.chosen)
    require_editor(user, [wanted.testbed])
    task, is_new = site.store.clusterings.request(wanted.testbed, wanted.chosen.model_dump(), user.name)
    model = clustering_view(task, joined=not is_new)
    query = urlencode({"testbed": wanted.testbed, "joined": not is_new})
    return done(request, f"/clusters/progress?{query}", model, status=202)


@router.get("/clusters/progress", response_model=ClusteringView)
def progress(
    request: Request,
    site: Context,
    _: Viewer,
    testbed: Annotated[str, Query(min_length=1, max_length=255)],
    joined: bool = False,
) -> Response:
    """Return the progress of the newest clustering of a testbed."""
    task = _require_clustering(
        testbed, site.store.clusterings.of(testbed) if _check_testbed(site, testbed) else None
    )
    return page(
        request, "clustering.html", clustering_view(task, joined=joined), title=f"Clustering of {testbed}"
    )


@router.post("/clusters/cancel", response_model=ClusteringView, openapi_extra=body_of(Cancellation))
def cancel(request: Request, site: Context, user: TestbedEditor, wanted: TheCancellation) -> Response:
    """Cancel the clustering of a testbed, if it is waiting or running."""
    require_editor(user, [wanted.testbed])
    task = site.store.clusterings.cancel(wanted.testbed, user.name)
    model = clustering_view(_require_clustering(wanted.testbed, task))
    return done(request, f"/clusters/progress?{urlencode({'testbed': wanted.testbed})}", model)


@router.post(
    "/clusters/triage",
    response_model=EditedClusters,
    responses=_CONFLICT,
    openapi_extra=body_of(ClusterEdits),
)
def triage(request: Request, site: Context, user: TestbedEditor, edits: TheEdits) -> Response:
    """Edit several clusters: all of them, or none if one was changed meanwhile."""
    _check_editor(site, user, edits.clusters)
    triaged = site.store.clusters.triage(
        edits.clusters, status=edits.status, message=edits.message, user=user.name
    )
    return _answer(request, site, triaged, TriageStatus(edits.status), edits.message)


@router.get("/clusters/reset", response_model=ResetPage)
def confirm_reset(request: Request, site: Context, user: TestbedEditor, testbed: Testbed = "") -> Response:
    """Return the number of clusters that a reset would delete."""
    require_editor(user, [testbed])
    return page(request, "clusters_reset.html", _reset_page(site, testbed), title="Reset clusters")


@router.post("/clusters/reset", response_model=ResetPage, openapi_extra=body_of(Reset))
def reset(request: Request, site: Context, user: TestbedEditor, wanted: TheReset) -> Response:
    """Delete all clusters that are not bugs."""
    before = _reset_page(site, wanted.testbed)
    require_editor(user, [wanted.testbed])
    if not wanted.confirm:
        raise HTTPException(
            400, "a reset deletes all clusters except bugs; select the check box, or send confirm"
        )
    deleted = site.store.clusters.reset(
        wanted.testbed or None, except_status=TriageStatus.BUG, user=user.name
    )
    model = before.model_copy(update={"deleted": deleted})
    return done(request, _list_of(wanted.testbed, deleted), model)


@router.get("/clusters/{identity}", response_model=ClusterDetail)
@cacheable
def cluster(
    request: Request,
    site: Context,
    _: Viewer,
    identity: Identity,
    start: Annotated[int, Query(alias="from", ge=0, le=LARGEST_NUMBER, description="first trace shown")] = 0,
) -> Response:
    """Return all details of a cluster, with all its traces."""
    stored = _one(site, identity)
    entries = site.store.activity.newest(_SHOWN_ENTRIES, f"cluster {identity}")
    model = ClusterDetail(
        cluster=cluster_views(site, [stored], whole=True)[0],
        search=prepare_bisect_commands(site, stored),
        activity=entries,
    )
    found = model.cluster
    return page(
        request, "cluster.html", model,
        title=f"{found.direction.capitalize()} of {format_count(found.size, 'trace')} on {found.testbed} "
        f"(cluster {identity})",
        description=f"Step at {found.commit[:12]}, after {found.before[:12]}; {found.status.value}",
        start=start, shown=TRACES_PER_PAGE,
        drawing=draw_centroid, alike=alike, label=label, named=format_parameters,
    )  # fmt: skip


@router.post(
    "/clusters/{identity}", response_model=EditedClusters, responses=_CONFLICT, openapi_extra=body_of(Edit)
)
def edit(
    request: Request, site: Context, user: TestbedEditor, identity: Identity, wanted: TheEdit
) -> Response:
    """Edit a cluster."""
    _check_editor(site, user, [identity])
    triaged = site.store.clusters.triage(
        {identity: wanted.version}, status=wanted.status, message=wanted.message, user=user.name
    )
    return _answer(request, site, triaged, TriageStatus(wanted.status), wanted.message)


@router.get("/clusters/{identity}/explore", status_code=303, response_class=RedirectResponse)
def explore(site: Context, _: Viewer, identity: Identity) -> RedirectResponse:
    """Redirect to the plot of the first traces of a cluster."""
    return RedirectResponse(explore_link(site, _one(site, identity)), 303)


@router.post("/clusters/{identity}/explore", status_code=303, response_class=RedirectResponse)
def explore_all(site: Context, user: TestbedEditor, identity: Identity) -> RedirectResponse:
    """Save the traces of a cluster as a shortcut, at most the 1000 nearest, and redirect to its plot."""
    stored = _one(site, identity)
    require_editor(user, [stored.testbed])
    ids = ids_of(site, [name for name, _ in stored.members[:MOST_TRACES]])
    shortcut = site.store.shortcuts.save(links.fit_shortcut(ids), user=user.name)
    return RedirectResponse(links.of_plot(testbed=stored.testbed, shortcut=shortcut), 303)


def _check_editor(site: AppContext, user: User, clusters: Iterable[int]) -> None:
    """Check that a user may change clusters; those that do not exist are reported later."""
    require_editor(user, site.store.clusters.testbeds(clusters))


def _answer(
    request: Request,
    site: AppContext,
    triaged: BulkEditResult[StoredCluster],
    status: TriageStatus,
    message: str | None,
) -> Response:
    if triaged.gone and not triaged.now:
        raise HTTPException(404, f"unknown cluster: {', '.join(map(str, triaged.gone))}")
    model = EditedClusters(
        done=triaged.is_done,
        error="" if triaged.is_done else _conflict(triaged),
        clusters=cluster_views(site, triaged.now),
    )
    if triaged.is_done:
        back = f"/clusters/{model.clusters[0].id}" if len(model.clusters) == 1 else "/clusters"
        return done(request, back, model)
    return page(
        request, "clusters_conflict.html", model, title="Someone else changed this", status=409,
        wanted_status=status, wanted_message=message,
    )  # fmt: skip


def _conflict(triaged: BulkEditResult[StoredCluster]) -> str:
    """Return a message with the conflicting edits of other users."""
    messages = [_describe_edit(each) for each in triaged.refused]
    messages += [f"cluster {identity} was deleted" for identity in triaged.gone]
    return f"{'; '.join(messages)}: nothing was changed"


def _describe_edit(cluster: StoredCluster) -> str:
    if cluster.changed is None:
        return f"cluster {cluster.identity} was never changed, and has version {cluster.version}"
    message = f" ({cluster.message})" if cluster.message else ""
    when = f"{cluster.changed:%Y-%m-%d %H:%M} UTC"
    return f"{cluster.changed_by} set cluster {cluster.identity} to {cluster.status}{message} at {when}"


def _reset_page(site: AppContext, testbed: str) -> ResetPage:
    counts = site.store.clusters.counts(_check_testbed(site, testbed))
    retained = counts.get(TriageStatus.BUG, 0)
    return ResetPage(testbed=testbed, would_delete=sum(counts.values()) - retained, keeps=retained)


def _one(site: AppContext, identity: int) -> StoredCluster:
    stored = site.store.clusters.one(identity)
    if stored is None:
        raise HTTPException(404, f"cluster {identity} does not exist; a reset may have deleted it")
    return stored


def _require_clustering(testbed: str, task: NewestClustering | None) -> NewestClustering:
    if task is None:
        raise HTTPException(404, f"testbed {testbed} was never clustered; request a clustering at /clusters")
    return task


def _check_testbed(site: AppContext, testbed: str) -> str | None:
    """Return a testbed of the store; None, which means all, if the name is empty."""
    if testbed and testbed not in site.store.tiles.testbeds():
        raise HTTPException(404, f"testbed {testbed!r} has no runs in the store")
    return testbed or None


def _list_of(testbed: str, deleted: int) -> str:
    return f"/clusters?{urlencode({'testbed': testbed, 'deleted': deleted})}"
