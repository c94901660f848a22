"""Validation of Gerrit's JSON: every value that is not as expected is an error.

Every function raises ValueError, which :func:`convert_errors` converts to an error that users can act on.

Source: Gerrit's documentation, "REST API", section Output Format and Timestamp.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from perftrend.errors import ServiceError

_LARGEST = 2**53
"""The largest integer that JSON represents exactly."""


@contextmanager
def convert_errors(request: str) -> Iterator[None]:
    """Report a response that is not Gerrit's.

    :param request: the request, such as its URL.
    :raises ServiceError: if the block raises ValueError.
    """
    try:
        yield
    except ValueError:
        raise ServiceError(f"{request}: the response is not valid; is gerrit.url right?") from None


def table(value: object) -> Mapping[str, Any]:
    """Return a JSON object."""
    if not isinstance(value, dict):
        raise ValueError("no table")
    return value


def items(value: object) -> list[Any]:
    """Return a list; a missing one is empty."""
    if not isinstance(value, list | None):
        raise ValueError("no list")
    return value or []


def tables(value: object) -> list[Mapping[str, Any]]:
    """Return a list of JSON objects; a missing one is empty."""
    return [table(each) for each in items(value)]


def text(value: object) -> str:
    """Return a string; a missing one is empty."""
    if not isinstance(value, str | None):
        raise ValueError("no text")
    # A single surrogate cannot be written to a file or a terminal.
    return (value or "").encode("utf-8", "replace").decode("utf-8")


def some_text(value: object) -> str:
    """Return a string that is not empty."""
    found = text(value)
    if not found:
        raise ValueError("no text")
    return found


def whole(value: object) -> int:
    """Return an integer."""
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _LARGEST:
        raise ValueError("no whole number")
    return value


def optional(value: object) -> int | None:
    """Return an integer, or None if it is missing."""
    return None if value is None else whole(value)


def revision(value: object) -> str:
    """Return the hash of a commit."""
    found = text(value)
    if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", found):
        raise ValueError("no commit")
    return found


def ref(value: object) -> str:
    """Return the name of a patch set's ref, ``refs/changes/02/2/1``."""
    found = text(value)
    if not re.fullmatch(r"refs/changes/[0-9]{2}/[0-9]{1,18}/[0-9]{1,9}", found):
        raise ValueError("no ref of a patch set")
    return found


def moment(value: object) -> datetime:
    """Return a time in UTC from ``2026-03-02 18:00:00.000000000``."""
    parts = re.fullmatch(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(\.\d{1,6})?\d*", text(value), re.ASCII)
    if not parts:
        raise ValueError("no moment")
    return datetime.strptime(f"{parts[1]}{parts[2] or '.0'}", "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC)


def seconds(value: object) -> datetime:
    """Return a time in UTC from seconds since 1970."""
    try:
        return datetime.fromtimestamp(whole(value), UTC)
    except (OverflowError, OSError):
        raise ValueError("no moment") from None
