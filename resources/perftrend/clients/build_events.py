"""Events about finished builds: parsing those of any sender, and posting signed ones to a dashboard.

An event is one line of JSON. Two forms are supported: ``{"job": "nightly-2n-clx", "build": 17}``, and what
Jenkins' Notification plugin posts. Of the latter, only those about the end of a build are used.

A dashboard is notified by one signed POST, see ``docs/dashboard/ingesting.rst``. The signature is the
HMAC-SHA256 (RFC 2104) of the timestamp, a dot and the body. Neither can be changed without invalidating it,
and a replayed event is rejected after a few minutes.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO
from urllib.parse import unquote

import requests
from pydantic import SecretStr

from perftrend.clients.http_session import HttpSession
from perftrend.errors import ArchiveError, ServiceError

LONGEST_LINE = 1 << 20
_END_PHASES = {"COMPLETED", "FINALIZED"}
_LONGEST_NAME = 255
_GREATEST_BUILD = 2**31 - 1

MOMENT_HEADER = "X-Perftrend-Timestamp"
"""Seconds since 1970, as a whole number."""
SIGNATURE_HEADER = "X-Perftrend-Signature"
"""``sha256=`` and hex digits."""
PATH = "/ingest"


@dataclass(frozen=True, slots=True)
class BuildEvent:
    """A build that ended."""

    job: str
    build: int


def lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a stream as they arrive; of a line that is too long only its beginning."""
    while line := stream.readline(LONGEST_LINE):
        rest = line
        while not rest.endswith(b"\n") and (rest := stream.readline(LONGEST_LINE)):
            pass
        if line.strip():
            yield line


def parse(line: bytes) -> BuildEvent | None:
    """Return the build that ended; None for other events.

    :raises ArchiveError: if it is not an event.
    """
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        raise ArchiveError(f"event {_brief(line)}: is not valid JSON") from None
    if not isinstance(document, dict):
        raise ArchiveError(f"event {_brief(line)}: is not a JSON object")
    build = document.get("build")
    if isinstance(build, dict):
        if build.get("phase") not in _END_PHASES:
            return None
        return _event(_full_name(document), build.get("number"), line)
    return _event(document.get("job"), build, line)


def _event(job: object, build: object, line: bytes) -> BuildEvent:
    if not isinstance(job, str) or not _is_name(job):
        raise ArchiveError(f'event {_brief(line)}: names no job; write {{"job": NAME, "build": NUMBER}}')
    if isinstance(build, bool) or not isinstance(build, int) or not 0 <= build <= _GREATEST_BUILD:
        raise ArchiveError(f'event {_brief(line)}: names no build; write {{"job": NAME, "build": NUMBER}}')
    return BuildEvent(job, build)


def _full_name(document: dict[str, Any]) -> object:
    """Return a job's name with its folders, which only its URL contains: ``job/team/job/nightly/``."""
    url = document.get("url")
    parts = url.strip("/").split("/") if isinstance(url, str) else []
    if parts and len(parts) % 2 == 0 and set(parts[::2]) == {"job"}:
        return "/".join(unquote(part) for part in parts[1::2])
    return document.get("name")


def _is_name(job: str) -> bool:
    parts = job.split("/")
    return job.isprintable() and len(job) <= _LONGEST_NAME and not {"", ".", ".."} & set(parts)


def _brief(line: bytes) -> str:
    return repr(line[:80].decode("utf-8", "replace").strip())


def signature(secret: SecretStr, moment: str, body: bytes) -> str:
    """Return the value of the signature header."""
    message = moment.encode() + b"." + body
    return "sha256=" + hmac.new(secret.get_secret_value().encode(), message, hashlib.sha256).hexdigest()


def notify(url: str, secret: SecretStr, job: str, build: int, *, timeout_s: float = 10.0) -> None:
    """Notify the dashboard at an address of a build.

    :raises ServiceError: if it does not accept the event.
    """
    body = json.dumps({"job": job, "build": build}).encode()
    moment = str(int(time.time()))
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json",
        MOMENT_HEADER: moment,
        SIGNATURE_HEADER: signature(secret, moment, body),
    }
    address = url.rstrip("/") + PATH
    try:
        with (
            HttpSession(timeout_s=timeout_s) as session,
            session.post(address, data=body, headers=headers, stream=True) as answer,
        ):
            status = answer.status_code
    except requests.RequestException as error:
        reason = type(error).__name__
        raise ServiceError(f"{address}: {reason}; is the dashboard there?") from None
    if status != requests.codes.accepted:
        raise ServiceError(f"{address}: answers {status}; look into the log of the dashboard")
