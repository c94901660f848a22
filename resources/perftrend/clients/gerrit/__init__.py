"""Gerrit: its changes and comments, posting of verdicts and answers, and its events.

The only importer of pygerrit2. See Clients in the documentation for the requests.
"""

from __future__ import annotations

from perftrend.clients.gerrit.changes import (
    PATCH_SET_LEVEL,
    Account,
    AccountGroup,
    ChangedFile,
    Comment,
    GerritChange,
    LabelRights,
    PatchSet,
    Vote,
)
from perftrend.clients.gerrit.client import Gerrit, connect
from perftrend.clients.gerrit.reviews import LineNote, PostResult, ReviewVerdict
from perftrend.clients.gerrit.stream import ChangeUpdated, CommentAdded, EventsDropped, EventStream
from perftrend.clients.http_service import RefusedError, TooLargeError, UnavailableError

__all__ = [
    "PATCH_SET_LEVEL",
    "Account",
    "AccountGroup",
    "ChangeUpdated",
    "ChangedFile",
    "Comment",
    "CommentAdded",
    "EventStream",
    "EventsDropped",
    "Gerrit",
    "GerritChange",
    "LabelRights",
    "LineNote",
    "PatchSet",
    "PostResult",
    "RefusedError",
    "ReviewVerdict",
    "TooLargeError",
    "UnavailableError",
    "Vote",
    "connect",
]
