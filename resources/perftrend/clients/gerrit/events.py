"""Events, as ``gerrit stream-events`` writes them: a JSON object on each line.

Source: Gerrit's documentation, "gerrit stream-events", sections Comment Added and Dropped Output.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from perftrend.clients.gerrit import validation
from perftrend.clients.gerrit.people import Account, read_account


@dataclass(frozen=True, slots=True)
class CommentAdded:
    """A review of a patch set."""

    project: str
    branch: str
    change: int
    change_id: str
    subject: str
    patch_set: int
    revision: str
    ref: str
    parents: tuple[str, ...]
    author: Account
    """Without the number, which events do not contain."""
    text: str
    """With Gerrit's heading. It may be incomplete: of a review with a message and a comment on the patch set,
    Gerrit 3.10 sends only the comment. The change's comments contain all of it."""
    written: datetime
    """UTC."""
    approvals: Mapping[str, int] = field(default_factory=dict, hash=False)
    """The author's votes by label, including those of this review."""


@dataclass(frozen=True, slots=True)
class EventsDropped:
    """Gerrit dropped events, because they were not read fast enough."""


Event = CommentAdded | EventsDropped


def read_event(line: bytes) -> Event | None:
    """Return the event of a line; None for other kinds of events.

    :raises ValueError: if the line is not a valid event.
    """
    try:
        found = validation.table(json.loads(line))
    except RecursionError:
        raise ValueError("too deep") from None
    kind = validation.some_text(found.get("type"))
    if kind == "dropped-output":
        return EventsDropped()
    return _comment_added(found) if kind == "comment-added" else None


def _comment_added(found: Mapping[str, Any]) -> CommentAdded:
    change, patch_set = validation.table(found.get("change")), validation.table(found.get("patchSet"))
    return CommentAdded(
        project=validation.some_text(change.get("project")),
        branch=validation.some_text(change.get("branch")),
        change=validation.whole(change.get("number")),
        change_id=validation.some_text(change.get("id")),
        subject=validation.text(change.get("subject")),
        patch_set=validation.whole(patch_set.get("number")),
        revision=validation.revision(patch_set.get("revision")),
        ref=validation.ref(patch_set.get("ref")),
        parents=tuple(validation.revision(parent) for parent in validation.items(patch_set.get("parents"))),
        author=read_account(found.get("author")),
        text=validation.text(found.get("comment")),
        written=validation.seconds(found.get("eventCreatedOn")),
        approvals=dict(_approvals(found)),
    )


def _approvals(found: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for each in validation.tables(found.get("approvals")):
        value = validation.text(each.get("value"))
        if not re.fullmatch(r"[-+]?[0-9]{1,9}", value):
            raise ValueError("no vote")
        yield validation.some_text(each.get("type")), int(value)
