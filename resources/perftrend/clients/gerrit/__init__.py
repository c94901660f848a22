"""Gerrit: its changes and comments, posting of verdicts and answers, and its events.

The only importer of pygerrit2. See Clients in the documentation for the requests.
"""

from __future__ import annotations

from perftrend.clients.gerrit.changes import Change, File, PatchSet, Vote
from perftrend.clients.gerrit.client import Gerrit, connect
from perftrend.clients.gerrit.comments import PATCH_SET_LEVEL, Comment
from perftrend.clients.gerrit.events import CommentAdded, Dropped
from perftrend.clients.gerrit.people import Account, Group
from perftrend.clients.gerrit.reviews import Note, Posted, Verdict
from perftrend.clients.gerrit.stream import EventStream
from perftrend.clients.web.refusals import RefusedError, TooLargeError, UnavailableError

__all__ = [
    "PATCH_SET_LEVEL",
    "Account",
    "Change",
    "Comment",
    "CommentAdded",
    "Dropped",
    "EventStream",
    "File",
    "Gerrit",
    "Group",
    "Note",
    "PatchSet",
    "Posted",
    "RefusedError",
    "TooLargeError",
    "UnavailableError",
    "Verdict",
    "Vote",
    "connect",
]
