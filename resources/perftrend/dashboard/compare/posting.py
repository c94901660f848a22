"""Posts a table in Gerrit, once, whoever presses how often."""

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
"""A form that is sent a second time waits so long for the first."""
_NONCE_LIFE = timedelta(days=7)
_JOB = "perftrend-compare"
# Two at once must not both be told by Gerrit that the message is not there yet.
_ONE_AT_A_TIME = threading.Lock()


def digest_of(text: str) -> str:
    """Return what stands for a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def why_not(site: Site) -> str:
    """Say why nothing can be posted; empty where it can."""
    if not site.settings.gerrit.post:
        return "gerrit.post is off; messages are not posted"
    try:
        connect(site.settings.gerrit)
    except SettingsError as error:
        return str(error)
    return "" if site.settings.gerrit.user else "gerrit.user is not set; set it to post messages"


def post(site: Site, asked: Question, wanted: ToPost, text: str, *, user: str, link: str) -> PostedEntry:
    """Post a text on a change and note who did in the activity log.

    Gerrit is asked first whether it has the message, so a double click, a browser that sends again and a
    process that was killed meanwhile double nothing.

    :raises ServiceError: if Gerrit refuses or fails.
    :raises UsageError: if there is no such patch set.
    """
    gerrit = connect(site.settings.gerrit)
    # Another question is another subject: its message replaces none of this one's.
    job = f"{_JOB}-{digest_of(asked.but(ratio='signed', sort='weight', reverse=False, first=0, row=''))[:12]}"
    now = datetime.now(UTC)
    if not site.store.spent.spend(digest_of(f"compare {wanted.nonce}"), now, now + _NONCE_LIFE):
        # Another process may be posting it at this very moment.
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
