"""Notification of the change that made a test worse, if configured: without a vote, and only once."""

from __future__ import annotations

from perftrend import console
from perftrend.clients.git import Repository
from perftrend.errors import PerftrendError
from perftrend.execution.revisions import ReviewedPatch
from perftrend.report import bisect, gerrit_post
from perftrend.report.bisect import BisectReport
from perftrend.settings import Settings


def notify_culprits(
    settings: Settings, reviewed: ReviewedPatch | None, repository: Repository, bisect_report: BisectReport
) -> None:
    """Notify each change whose commit alone made a test worse, except the change under review.

    A notification that fails is only a warning: the result is on the change under review.

    :param reviewed: the change under review; None: no change is notified.
    """
    if reviewed is None or not settings.gerrit.notify_culprit:
        return
    for culprit in bisect_report.outcome.culprits:
        if len(culprit.commits) > 1 or not bisect_report.is_regression(culprit):
            continue
        commit = culprit.commits[0]
        try:
            found = _review_of(reviewed, repository, commit)
        except PerftrendError as error:
            console.warn(f"the change of {commit[:12]} got no message: {error}")
            continue
        if found is None:
            console.warn(f"no change in Gerrit is known for {commit[:12]}; nothing is posted")
        elif found.change.number != reviewed.change.number:
            gerrit_post.post(
                settings, found, job=bisect_report.job, text=bisect.accusation(bisect_report, culprit)
            )


def _review_of(reviewed: ReviewedPatch, repository: Repository, commit: str) -> ReviewedPatch | None:
    change = reviewed.change
    found = reviewed.gerrit.patch_set_of(
        commit,
        project=change.project,
        change_id=repository.change_id(commit),
        branch=change.branch,
    )
    return ReviewedPatch(reviewed.gerrit, *found) if found else None
