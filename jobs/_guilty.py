"""Notification of the change that made a test worse, if configured: without a vote, and only once."""

from __future__ import annotations

from jobs import _options as options
from jobs import _posting as posting
from jobs._revisions import Review
from perftrend.clients.git import Repository
from perftrend.errors import PerftrendError
from perftrend.report import bisection as report
from perftrend.report.bisection import Report
from perftrend.settings import Settings


def tell(settings: Settings, asked_on: Review | None, repository: Repository, told: Report) -> None:
    """Notify each change whose commit alone made a test worse, except the change under review.

    A notification that fails is only a warning: the result is on the change under review.

    :param asked_on: the change under review; None: no change is notified.
    """
    if asked_on is None or not settings.gerrit.tell_culprit:
        return
    for culprit in told.outcome.culprits:
        if len(culprit.commits) > 1 or not told.worsened(culprit):
            continue
        commit = culprit.commits[0]
        try:
            found = _review_of(asked_on, repository, commit)
        except PerftrendError as error:
            options.warn(f"the change of {commit[:12]} got no message: {error}")
            continue
        if found is None:
            options.warn(f"no change in Gerrit is known for {commit[:12]}; nothing is posted")
        elif found.change.number != asked_on.change.number:
            posting.posted(settings, found, job=told.job, text=report.accusation(told, culprit))


def _review_of(asked_on: Review, repository: Repository, commit: str) -> Review | None:
    change = asked_on.change
    found = asked_on.gerrit.patch_set_of(
        commit,
        project=change.project,
        change_id=repository.change_id(commit),
        branch=change.branch,
    )
    return Review(asked_on.gerrit, *found) if found else None
