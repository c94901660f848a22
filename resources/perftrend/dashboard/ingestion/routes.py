"""Endpoints and models of ``/ingest``, and authentication and validation of the events that report builds."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from pydantic import BaseModel, ConfigDict, SecretStr

from perftrend.clients import build_events
from perftrend.clients.build_events import MOMENT_HEADER, SIGNATURE_HEADER, BuildEvent, signature
from perftrend.dashboard.auth import Viewer
from perftrend.dashboard.context import Context
from perftrend.dashboard.error_pages import Fault
from perftrend.dashboard.pages import json_of, page
from perftrend.errors import ArchiveError
from perftrend.store.access import Spent
from perftrend.store.ingestions import IngestionState

LONGEST_BODY = 8192
"""In bytes: an event names a job and a build; those of Jenkins have some more fields."""
WINDOW = timedelta(minutes=5)
"""Maximum difference between the clock of the sender and that of this machine."""
MOST_WAITING = 1000
_LONGEST_MOMENT = 12
_RETRY_S = "60"
EVENT_OPENAPI: dict[str, Any] = {
    "parameters": [
        {
            "name": name,
            "in": "header",
            "required": True,
            "description": description,
            "schema": {"type": "string"},
        }
        for name, description in (
            (MOMENT_HEADER, "Seconds since 1970, as a whole number."),
            (SIGNATURE_HEADER, "sha256= and the HMAC-SHA256 of time, dot and body, in hex digits."),
        )
    ],
    "requestBody": {
        "required": True,
        "description": "A build that has ended; also in the format of Jenkins's Notification plugin.",
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {"job": {"type": "string"}, "build": {"type": ["integer", "object"]}},
                    "required": ["build"],
                }
            }
        },
    },
}
"""OpenAPI description of an event."""

router = APIRouter()


class ReportedBuild(BaseModel):
    """A reported build, and the state of its ingestion."""

    model_config = ConfigDict(from_attributes=True)

    number: int
    job: str
    build: int
    state: IngestionState
    asked: datetime
    due: datetime
    """Earliest time of the next attempt, if it waits."""
    attempts: int
    ended: datetime | None
    exit_code: int | None
    told: str
    """The last message of the newest attempt."""


class ReportedBuilds(BaseModel):
    """The most recently reported builds, the newest first."""

    builds: list[ReportedBuild]


class AcceptedEvent(BaseModel):
    """Response to an event."""

    build: ReportedBuild | None
    """None: the event does not report a finished build."""
    joined: bool
    """Whether the build was already reported, and its ingestion is waiting or running."""


async def read_event(request: Request) -> bytes:
    """Return the body of a request, reading no more than the maximum length of an event."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LONGEST_BODY:
            raise HTTPException(413, f"an event has at most {LONGEST_BODY} bytes")
    return body


@router.get("/ingest", response_model=ReportedBuilds)
def ingestions(
    request: Request,
    site: Context,
    _: Viewer,
    last: Annotated[int, Query(ge=1, le=1000, description="number of builds")] = 100,
) -> Response:
    """Return the reported builds, with the states of their ingestions."""
    model = ReportedBuilds(
        builds=[ReportedBuild.model_validate(each) for each in site.store.ingestions.newest(last)]
    )
    return page(request, "ingest.html", model, title="Ingestions")


@router.post(
    "/ingest",
    response_model=AcceptedEvent,
    status_code=202,
    responses={status: {"model": Fault} for status in (401, 403, 409)},
    openapi_extra=EVENT_OPENAPI,
)
def ingest(request: Request, site: Context, body: Annotated[bytes, Depends(read_event)]) -> Response:
    """Accept an event that reports a finished build, which is ingested in the background."""
    chosen, now = site.settings.dashboard, datetime.now(UTC)
    check_event(request, body, chosen.ingest_secret, site.store.spent, now)
    event = parse_event(body, chosen.ingest_jobs)
    if event is None:
        return json_of(AcceptedEvent(build=None, joined=False), status=202)
    ingestion, is_new = site.store.ingestions.request(
        event.job, event.build, now=now, most=MOST_WAITING, source=chosen.ingest_source or ""
    )
    if ingestion is None:
        raise HTTPException(
            503, "too many builds are waiting; send the event again later", {"Retry-After": _RETRY_S}
        )
    return json_of(
        AcceptedEvent(build=ReportedBuild.model_validate(ingestion), joined=not is_new), status=202
    )


def check_event(request: Request, body: bytes, secret: SecretStr | None, spent: Spent, now: datetime) -> None:
    """Reject an event that is not signed, too old, or received a second time.

    :raises HTTPException: with no more details than a sender needs to fix it.
    """
    if secret is None:
        raise HTTPException(403, "events are not accepted; dashboard.ingest_secret is not set")
    moment = request.headers.get(MOMENT_HEADER, "")
    given = request.headers.get(SIGNATURE_HEADER, "")
    right = signature(secret, moment, body)
    # Compare bytes: compare_digest does not accept text that is not ASCII.
    if not hmac.compare_digest(given.encode(), right.encode()):
        raise HTTPException(401, f"the event is not signed; {SIGNATURE_HEADER} is missing or wrong")
    if not (moment.isascii() and moment.isdecimal() and len(moment) <= _LONGEST_MOMENT):
        raise HTTPException(401, f"the event has no time; {MOMENT_HEADER} is in seconds since 1970")
    if abs(now.timestamp() - int(moment)) > WINDOW.total_seconds():
        raise HTTPException(401, "the event is too old or from the future; is the sender's clock right?")
    until = datetime.fromtimestamp(int(moment), UTC) + WINDOW
    if not spent.spend(right.removeprefix("sha256=")[:64], now, until + timedelta(seconds=1)):
        raise HTTPException(409, "the event was already received; sign it again to send it again")


def parse_event(body: bytes, jobs: Sequence[str]) -> BuildEvent | None:
    """Return the build that an event reports; None if it does not report a finished build.

    :param jobs: shell patterns of the jobs that events may report.
    :raises HTTPException: if it is not a valid event, or its job is not accepted.
    """
    try:
        event = build_events.parse(body)
    except ArchiveError as error:
        raise HTTPException(400, str(error)) from None
    if event and not any(fnmatchcase(event.job, pattern) for pattern in jobs):
        raise HTTPException(403, "events of this job are not accepted; see dashboard.ingest_jobs")
    return event
