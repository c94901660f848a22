"""Endpoints of ``/ingest``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response

from perftrend.dashboard.auth import Viewer
from perftrend.dashboard.context import Context
from perftrend.dashboard.error_pages import Fault
from perftrend.dashboard.ingestion import events
from perftrend.dashboard.ingestion.models import AcceptedEvent, ReportedBuild, ReportedBuilds
from perftrend.dashboard.pages import json_of, page

MOST_WAITING = 1000
_RETRY_S = "60"

router = APIRouter()


@router.get("/ingest", response_model=ReportedBuilds)
def ingestions(
    request: Request,
    site: Context,
    _: Viewer,
    last: Annotated[int, Query(ge=1, le=1000, description="number of builds")] = 100,
) -> Response:
    """Return the reported builds, with the states of their ingestions."""
    model = ReportedBuilds(builds=[ReportedBuild.of(each) for each in site.store.ingestions.newest(last)])
    return page(request, "ingest.html", model, title="Ingestions")


@router.post(
    "/ingest",
    response_model=AcceptedEvent,
    status_code=202,
    responses={status: {"model": Fault} for status in (401, 403, 409)},
    openapi_extra=events.DESCRIBED,
)
def ingest(request: Request, site: Context, body: Annotated[bytes, Depends(events.body_of)]) -> Response:
    """Accept an event that reports a finished build, which is ingested in the background."""
    chosen, now = site.settings.dashboard, datetime.now(UTC)
    events.check(request, body, chosen.ingest_secret, site.store.spent, now)
    event = events.parse_event(body, chosen.ingest_jobs)
    if event is None:
        return json_of(AcceptedEvent(build=None, joined=False), status=202)
    ingestion, is_new = site.store.ingestions.request(
        event.job, event.build, now=now, most=MOST_WAITING, source=chosen.ingest_source or ""
    )
    if ingestion is None:
        raise HTTPException(
            503, "too many builds are waiting; send the event again later", {"Retry-After": _RETRY_S}
        )
    return json_of(AcceptedEvent(build=ReportedBuild.of(ingestion), joined=not is_new), status=202)
