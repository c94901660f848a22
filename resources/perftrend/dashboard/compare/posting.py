"""Posting of a table in Gerrit, only once even if the form is sent several times."""

from __future__ import annotations

import hashlib
import threading
import time
from datetime import UTC, datetime, timedelta

from perftrend.clients.gerrit import Verdict, connect
from perftrend.dashboard.compare.model import PostedEntry, ToPost
from perftrend.dashboard.compare.question import Question
from perftrend.dashboard.site import Site
from perftrend.errors import SettingsError

RACE_S = 2.0
"""Time that a form sent a second time waits for the first."""
_NONCE_LIFE = timedelta(days=7)
_JOB = "perftrend-compare"
# Two concurrent requests must not both find that Gerrit does not have the message yet.
_ONE_AT_A_TIME = threading.Lock()


def digest_of(text: str) -> str:
    """Return the digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def why_not(site: Site) -> str:
    """Return why messages cannot be posted; empty if they can."""
    if not site.settings.gerrit.post:
        return "gerrit.post is off; messages are not posted"
    try:
        connect(site.settings.gerrit)
    except SettingsError as error:
        return str(error)
    return "" if site.settings.gerrit.user else "gerrit.user is not set; set it to post messages"


def post(site: Site, asked: Question, wanted: ToPost, text: str, *, user: str, link: str) -> PostedEntry:
    """Post a text on a change and record it with the user in the activity log.

    Gerrit is first queried for the message, so that a double click, a browser that sends the form again or a
    process that was killed meanwhile does not cause a duplicate.

    :raises ServiceError: if Gerrit refuses or fails.
    :raises UsageError: if the patch set does not exist.
    """
    gerrit = connect(site.settings.gerrit)
    # Each query has its own job name, so that its message does not replace that of another query.
    job = f"{_JOB}-{digest_of(asked.but(ratio='signed', sort='weight', reverse=False, first=0, row=''))[:12]}"
    now = datetime.now(UTC)
    if not site.store.spent.spend(digest_of(f"compare {wanted.nonce}"), now, now + _NONCE_LIFE):
        # Another process may be posting it at this moment.
        time.sleep(RACE_S)
    with _ONE_AT_A_TIME:
        change = gerrit.change(wanted.change)
        patch_set = wanted.patch_set or change.current.number
        posted = gerrit.post(change.number, patch_set, Verdict(job, text, link=link))
    if posted.is_new:
        detail = f"patch set {patch_set}: {text}"
        site.store.activity.record(user, "posted", f"change {change.number}", detail)
    page = gerrit.page(change)
    return PostedEntry(change=change.number, patch_set=patch_set, page=page, is_new=posted.is_new)
