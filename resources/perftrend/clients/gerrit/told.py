"""What a Gerrit tells in JSON, checked value by value: anything else than expected is an error.

Every function raises ValueError, which :func:`as_told` turns into one that a person can act on.

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
"""Of a whole number that JSON carries without loss."""


@contextmanager
def as_told(asked: str) -> Iterator[None]:
    """Say that an answer is none of Gerrit's.

    :param asked: what was asked for, such as the address.
    :raises ServiceError: if what is read inside raises ValueError.
    """
    try:
        yield
    except ValueError:
        raise ServiceError(f"{asked}: answers as Gerrit would not; is gerrit.url right?") from None


def table(value: object) -> Mapping[str, Any]:
    """Return a table."""
    if not isinstance(value, dict):
        raise ValueError("no table")
    return value


def items(value: object) -> list[Any]:
    """Return a list; one that is left out is empty."""
    if not isinstance(value, list | None):
        raise ValueError("no list")
    return value or []


def tables(value: object) -> list[Mapping[str, Any]]:
    """Return a list of tables; one that is left out is empty."""
    return [table(each) for each in items(value)]


def text(value: object) -> str:
    """Return a text, or an empty one where it is left out."""
    if not isinstance(value, str | None):
        raise ValueError("no text")
    # Half of a character pair cannot be written to a file or a terminal.
    return (value or "").encode("utf-8", "replace").decode("utf-8")


def some_text(value: object) -> str:
    """Return a text that is not empty."""
    found = text(value)
    if not found:
        raise ValueError("no text")
    return found


def whole(value: object) -> int:
    """Return a whole number."""
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _LARGEST:
        raise ValueError("no whole number")
    return value


def optional(value: object) -> int | None:
    """Return a whole number, or None where it is left out."""
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
    """Return a moment from ``2026-03-02 18:00:00.000000000``, in UTC."""
    parts = re.fullmatch(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(\.\d{1,6})?\d*", text(value), re.ASCII)
    if not parts:
        raise ValueError("no moment")
    return datetime.strptime(f"{parts[1]}{parts[2] or '.0'}", "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC)


def seconds(value: object) -> datetime:
    """Return a moment from seconds since 1970."""
    try:
        return datetime.fromtimestamp(whole(value), UTC)
    except (OverflowError, OSError):
        raise ValueError("no moment") from None
