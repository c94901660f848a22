"""Whether an event comes from somebody who may send it, and what it asks for."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

from fastapi import HTTPException, Request
from pydantic import SecretStr

from perftrend.archive.fetch import events
from perftrend.archive.fetch.events import Event
from perftrend.clients.ingest_event import MOMENT_HEADER, SIGNATURE_HEADER, signature
from perftrend.errors import ArchiveError
from perftrend.store.tokens import Spent

LONGEST_BODY = 8192
"""Bytes: an event names a job and a build, and Jenkins's has some more words."""
WINDOW = timedelta(minutes=5)
"""So far may the sender's clock be from ours."""
_LONGEST_MOMENT = 12
DESCRIBED: dict[str, Any] = {
    "parameters": [
        {"name": name, "in": "header", "required": True, "description": told, "schema": {"type": "string"}}
        for name, told in (
            (MOMENT_HEADER, "Seconds since 1970, as a whole number."),
            (SIGNATURE_HEADER, "sha256= and the HMAC-SHA256 of time, dot and body, in hex digits."),
        )
    ],
    "requestBody": {
        "required": True,
        "description": "A build that ended; also as Jenkins's Notification plugin tells it.",
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
"""What OpenAPI says of an event."""


async def body_of(request: Request) -> bytes:
    """Return the body of a request, which is read only as far as an event is long."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LONGEST_BODY:
            raise HTTPException(413, f"an event has at most {LONGEST_BODY} bytes")
    return body


def check(request: Request, body: bytes, secret: SecretStr | None, spent: Spent, now: datetime) -> None:
    """Refuse an event that is not signed, too old, or comes a second time.

    :raises HTTPException: saying no more of why than a sender needs to mend it.
    """
    if secret is None:
        raise HTTPException(403, "events are not accepted; dashboard.ingest_secret is not set")
    moment = request.headers.get(MOMENT_HEADER, "")
    given = request.headers.get(SIGNATURE_HEADER, "")
    right = signature(secret, moment, body)
    # Of the bytes: text that is not ASCII cannot be compared in constant time.
    if not hmac.compare_digest(given.encode(), right.encode()):
        raise HTTPException(401, f"the event is not signed; {SIGNATURE_HEADER} is missing or wrong")
    if not (moment.isascii() and moment.isdecimal() and len(moment) <= _LONGEST_MOMENT):
        raise HTTPException(401, f"the event has no time; {MOMENT_HEADER} is in seconds since 1970")
    if abs(now.timestamp() - int(moment)) > WINDOW.total_seconds():
        raise HTTPException(401, "the event is too old or from the future; is the sender's clock right?")
    until = datetime.fromtimestamp(int(moment), UTC) + WINDOW
    if not spent.spend(right.removeprefix("sha256=")[:64], now, until + timedelta(seconds=1)):
        raise HTTPException(409, "the event was already received; sign it again to send it again")


def parsed(body: bytes, jobs: Sequence[str]) -> Event | None:
    """Return the build that an event tells of; None where it tells of none that ended.

    :param jobs: shell patterns of the jobs that events may tell of.
    :raises HTTPException: if it is no event, or of a job that it may not tell of.
    """
    try:
        event = events.parse(body)
    except ArchiveError as error:
        raise HTTPException(400, str(error)) from None
    if event and not any(fnmatchcase(event.job, pattern) for pattern in jobs):
        raise HTTPException(403, "events of this job are not accepted; see dashboard.ingest_jobs")
    return event
